"""A cluster that has nothing and takes everything, which is all that Helm needs to render a chart: it is asked for its version and for
the kinds that it knows."""

import contextlib
import http.server
import json
import os
import re
import tempfile
import threading

# The kinds of the chart and of Helm itself, by group: plural, kind, whether they are in a namespace.
KINDS = {
    "v1": [
        ("configmaps", "ConfigMap", True),
        ("namespaces", "Namespace", False),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
        ("secrets", "Secret", True),
        ("serviceaccounts", "ServiceAccount", True),
        ("services", "Service", True),
    ],
    "apps/v1": [("deployments", "Deployment", True), ("daemonsets", "DaemonSet", True)],
    "gateway.networking.k8s.io/v1": [("httproutes", "HTTPRoute", True)],
    "monitoring.coreos.com/v1": [("servicemonitors", "ServiceMonitor", True)],
    "networking.k8s.io/v1": [("ingresses", "Ingress", True), ("networkpolicies", "NetworkPolicy", True)],
    "policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
    "policy/v1beta1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
    "rbac.authorization.k8s.io/v1": [
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("clusterroles", "ClusterRole", False),
        ("rolebindings", "RoleBinding", True),
        ("roles", "Role", True),
    ],
}


def known(version):
    """The groups of a cluster of this version."""
    minor = int(version.split(".")[1])
    without = set()
    if minor < 21:
        without.add("policy/v1")
    if minor >= 25:
        without.add("policy/v1beta1")
    return {group: kinds for group, kinds in KINDS.items() if group not in without}


def answer(version, path):
    """What a GET of this path gets; None where nothing is."""
    groups = known(version)
    if path == "/version":
        major, minor = version.split(".")
        return {"major": major, "minor": minor, "gitVersion": f"v{version}.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        names = sorted({group.split("/")[0] for group in groups if "/" in group})
        listed = []
        for name in names:
            versions = [{"groupVersion": group, "version": group.split("/")[1]} for group in groups if group.startswith(name + "/")]
            listed.append({"name": name, "versions": versions, "preferredVersion": versions[0]})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    group = path.removeprefix("/apis/").removeprefix("/api/")
    if group in groups:
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        resources = [{"name": plural, "singularName": "", "namespaced": within, "kind": kind, "verbs": verbs} for plural, kind, within in groups[group]]
        return {"kind": "APIResourceList", "groupVersion": group, "resources": resources}
    # A list of what there is: nothing.
    if re.fullmatch(r"/(api/v1|apis/[^/]+/[^/]+)/namespaces/[^/]+/[a-z]+", path):
        return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, code, data, kind="application/json"):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        body = answer(self.server.version, self.path.split("?")[0])
        if body is None:
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        self.reply(body.get("code", 200), json.dumps(body).encode())

    # Whatever comes has been made, in the form that it came in.
    def do_POST(self):
        self.reply(201, self.rfile.read(int(self.headers["content-length"])), self.headers["content-type"])

    def do_PUT(self):
        self.reply(200, self.rfile.read(int(self.headers["content-length"])), self.headers["content-type"])

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def of(version):
    """A cluster of this version, by its kubeconfig."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.version = version
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = os.path.join(folder, "kubeconfig")
        with open(kubeconfig, "w") as file:
            cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
            context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
            json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "users": [{"name": "c", "user": {}}], "current-context": "c"}, file)
        yield kubeconfig
    server.shutdown()
