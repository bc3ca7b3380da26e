"""Helm's engine on the chart, for tests/e2e/chart.rs. Values are JSON in VALUES; the answer is JSON on standard output.

    chart.py lint
    chart.py render VERSION     what Helm would make in a cluster of this version: 1.20, 1.34
    chart.py install NAMESPACE  makes it in the cluster of KUBECONFIG
    chart.py upgrade NAMESPACE
    chart.py uninstall NAMESPACE
"""

import asyncio
import json
import os
import sys
import tempfile

import helm_sdkpy as helm
import yaml

import cluster

CHART = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "helm", "warmpool")
RELEASE = "pool"


def objects(release):
    return {"objects": [one for one in yaml.safe_load_all(release["manifest"]) if one], "notes": release["info"].get("notes", "")}


async def lint():
    with cluster.of("1.34") as kubeconfig:
        configuration = helm.Configuration(namespace="browsers", kubeconfig=kubeconfig)
        report = await helm.Lint(configuration).run(CHART)
    # 1 is a hint, such as that there is no icon.
    return {"problems": [message for message in report["Messages"] or [] if message["Severity"] > 1], "charts": report["TotalChartsLinted"]}


async def install(namespace, kubeconfig, values, create_namespace=True):
    configuration = helm.Configuration(namespace=namespace, kubeconfig=kubeconfig)
    return objects(await helm.Install(configuration).run(RELEASE, CHART, values=values, create_namespace=create_namespace, wait=False))


async def upgrade(namespace, kubeconfig, values):
    configuration = helm.Configuration(namespace=namespace, kubeconfig=kubeconfig)
    return objects(await helm.Upgrade(configuration).run(RELEASE, CHART, values=values, wait=False))


async def uninstall(namespace, kubeconfig):
    configuration = helm.Configuration(namespace=namespace, kubeconfig=kubeconfig)
    await helm.Uninstall(configuration).run(RELEASE, wait=False)
    return {}


async def main(command, *arguments):
    if command == "lint":
        return await lint()
    if command == "uninstall":
        return await uninstall(*arguments, os.environ["KUBECONFIG"])
    values = json.loads(os.environ["VALUES"])
    if command == "render":
        with cluster.of(*arguments) as kubeconfig:
            return await install("browsers", kubeconfig, values, create_namespace=False)
    return await {"install": install, "upgrade": upgrade}[command](*arguments, os.environ["KUBECONFIG"], values)


# Helm keeps what it asked a cluster for; clusters of the tests share addresses.
with tempfile.TemporaryDirectory() as home:
    os.environ["HELM_CACHE_HOME"] = os.environ["HOME"] = home
    try:
        answer = asyncio.run(main(*sys.argv[1:]))
    except helm.HelmError as error:
        answer = {"error": str(error)}
print(json.dumps(answer))
