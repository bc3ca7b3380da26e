//! The Helm chart: what Helm's own engine makes of it, and what a cluster says to that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use warmpool_tests::programs::Program;
use warmpool_tests::{Api, Group, Kubernetes, Session, Stage, docker, eventually, evidence, group};

use crate::kubernetes::cluster;
use crate::swarm::stack;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            the_chart_makes_what_the_values_say,
            probes_ask_where_and_how_the_daemon_listens,
            wrong_values_are_refused_by_name,
            its_readme_has_every_value,
        ],
        // The group `kubernetes` has those that need a cluster.
        full: [],
    )
}

/// A namespace of the cluster, which Helm makes.
const NAMESPACE: &str = "browsers";
/// The same, of the case whose daemon runs.
const SERVING: &str = "serving";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm/warmpool")
}

/// Runs Helm's engine; none where there is no build of it for this machine.
async fn helm(arguments: &[&str], values: &Value, kubeconfig: Option<&Path>) -> Result<Option<Value>> {
    if std::env::consts::ARCH != "x86_64" {
        evidence::cannot(format!("Helm's Python package has no library for {}", std::env::consts::ARCH));
        return Ok(None);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm");
    let mut program = Program::python(&folder, "chart.py").await?.env("VALUES", values.to_string());
    if let Some(kubeconfig) = kubeconfig {
        program = program.env("KUBECONFIG", kubeconfig.to_string_lossy());
    }
    for argument in arguments {
        program = program.arg(argument);
    }
    program.results().await.map(Some)
}

/// What Helm makes of these values in a cluster of this version.
async fn rendered(version: &str, values: &Value) -> Result<Option<Rendered>> {
    helm(&["render", version], values, None).await?.map(Rendered::new).transpose()
}

/// The objects of a release.
struct Rendered {
    objects: Vec<Value>,
    notes: String,
}

impl Rendered {
    fn new(mut answer: Value) -> Result<Self> {
        ensure!(answer["error"].is_null(), "Helm refused: {answer}");
        let objects = serde_json::from_value(answer["objects"].take())?;
        Ok(Self { objects, notes: answer["notes"].as_str().unwrap_or_default().to_owned() })
    }

    fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> =
            self.objects.iter().map(|object| format!("{}", object["kind"]).replace('"', "")).collect();
        kinds.sort();
        kinds
    }

    fn only(&self, kind: &str) -> Result<&Value> {
        let mut found = self.objects.iter().filter(|object| object["kind"] == kind);
        let first = found.next().with_context(|| format!("no {kind}: {:?}", self.kinds()))?;
        ensure!(found.next().is_none(), "more than one {kind}");
        Ok(first)
    }

    /// The daemon's Pod.
    fn pod(&self) -> Result<&Value> {
        Ok(&self.only("Deployment")?["spec"]["template"]["spec"])
    }

    /// The daemon's variables.
    fn variables(&self) -> Result<BTreeMap<String, String>> {
        let list = self.pod()?["containers"][0]["env"].as_array().context("variables")?;
        let text = |entry: &Value, field: &str| Some(entry[field].as_str()?.to_owned());
        list.iter().map(|entry| text(entry, "name").zip(text(entry, "value")).context("a variable")).collect()
    }
}

/// These values, and the least that the chart must be told.
fn least(mut values: Value) -> Value {
    values["image"] = json!({"repository": "registry.example/daemon"});
    values
}

/// Values that turn on everything.
fn everything() -> Value {
    json!({
        "image": {"repository": "registry.example/daemon", "digest": format!("sha256:{}", "a".repeat(64))},
        "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
        "workers": {"images": {"chromium": "registry.example/chromium@sha256:1"}, "pullPolicy": "always"},
        "settings": {
            "pool.max_workers": 2_000_000, "worker.cpus": 0.5, "egress.allow": ["a.example", "10.0.0.0/8"], "worker.sandbox": false,
            "pool.start_concurrency": null, "webhooks.secret_file": "/etc/warmpool/secrets/webhook.secret",
        },
        "secret": {"files": {"webhook.secret": "whsec_c2VjcmV0"}},
        "publicUrl": "https://browsers.example.com",
        "allowedHosts": ["pool.example"],
        "trustedProxies": ["10.0.0.0/8", "192.168.1.1"],
        "service": {"type": "NodePort", "nodePort": 30_444},
        "ingress": {
            "enabled": true, "className": "nginx", "hosts": ["browsers.example.com"],
            "tls": [{"secretName": "tls", "hosts": ["browsers.example.com"]}],
            "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "1g", "own.example/key": "value"},
        },
        "httpRoute": {"enabled": true, "parentRefs": [{"name": "gateway"}], "hostnames": ["route.example"]},
        "podDisruptionBudget": {"enabled": true},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}, "bearerTokenSecret": {"name": "key", "key": "key"}},
        "seccompProfile": {"install": true, "name": "profiles/browsers.json"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "podLabels": {"own": "label"}, "podAnnotations": {"own": "annotation"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "kube-root-ca.crt"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/warmpool/ca"}],
    })
}

async fn the_chart_makes_what_the_values_say(_: Stage) -> Result<()> {
    let Some(report) = helm(&["lint"], &json!({}), None).await? else { return Ok(()) };
    ensure!(report == json!({"problems": [], "charts": 1}), "{report}");

    let Some(plain) = rendered("1.34", &least(json!({}))).await? else { return Ok(()) };
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ];
    ensure!(plain.kinds() == expected, "{:?}", plain.kinds());
    ensure!(plain.notes.contains("cat /var/lib/warmpool/first-key"), "{}", plain.notes);
    ensure!(plain.notes.contains("-- warmpool doctor --nodes"), "{}", plain.notes);
    let version = env!("CARGO_PKG_VERSION");
    let pod = plain.pod()?;
    ensure!(pod["containers"][0]["image"] == format!("registry.example/daemon:{version}"), "{pod}");
    // The daemon may wait for as long as the Lease of a lost one holds, which no other probe allows it.
    let container = &pod["containers"][0];
    let asked = &container["livenessProbe"]["exec"]["command"];
    ensure!(*asked == json!(["/usr/bin/warmpool", "health"]), "{container}");
    ensure!(container["startupProbe"].is_null(), "{container}");
    // The cluster would set variables that look like settings.
    ensure!(pod["enableServiceLinks"] == false, "{pod}");
    ensure!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "pool-warmpool", "{pod}");
    ensure!(plain.only("Deployment")?["spec"]["strategy"] == json!({"type": "Recreate"}));
    let variables = plain.variables()?;
    // What is kept fits on the volume, which is half of the daemon's own limit for tasks alone.
    ensure!(plain.only("PersistentVolumeClaim")?["spec"]["resources"]["requests"]["storage"] == "10Gi");
    ensure!(variables["WARMPOOL_TASKS_KEEP_SIZE"] == "4GiB", "{variables:?}");
    ensure!(variables["WARMPOOL_WORLD_MAX_TOTAL"] == "2GiB", "{variables:?}");
    ensure!(variables["WARMPOOL_KUBERNETES_OWNER"] == plain_name(plain.only("ConfigMap")?), "{variables:?}");
    ensure!(
        variables["WARMPOOL_SERVER_ALLOWED_HOSTS"].starts_with("pool-warmpool,pool-warmpool.browsers,"),
        "{variables:?}"
    );
    let policy = plain.only("NetworkPolicy")?;
    ensure!(policy["spec"]["egress"] == json!([]), "{policy}");
    ensure!(policy["spec"]["ingress"][0]["ports"] == json!([{"protocol": "TCP", "port": 6669}]), "{policy}");

    let Some(full) = rendered("1.34", &everything()).await? else { return Ok(()) };
    for kind in ["Secret", "Ingress", "HTTPRoute", "PodDisruptionBudget", "ServiceMonitor", "DaemonSet"] {
        full.only(kind)?;
    }
    let variables = full.variables()?;
    let variable = |name: &str| variables.get(&format!("WARMPOOL_{name}")).map(String::as_str);
    for (name, value) in [
        ("POOL_MAX_WORKERS", Some("2000000")),
        ("WORKER_CPUS", Some("0.5")),
        ("WORKER_SANDBOX", Some("false")),
        ("EGRESS_ALLOW", Some("a.example,10.0.0.0/8")),
        ("POOL_START_CONCURRENCY", None),
        ("WORKER_CHROMIUM_IMAGE", Some("registry.example/chromium@sha256:1")),
        ("WORKER_FIREFOX_IMAGE", None),
        ("KUBERNETES_IMAGE_PULL_SECRETS", Some("registry,mirror")),
        ("KUBERNETES_PULL_POLICY", Some("always")),
        ("KUBERNETES_SECCOMP_PROFILE", Some("profiles/browsers.json")),
        ("SERVER_TRUSTED_PROXIES", Some("10.0.0.0/8,192.168.1.1")),
    ] {
        ensure!(variable(name) == value, "{name} is {:?}, not {value:?}", variable(name));
    }
    let hosts: BTreeSet<&str> = variables["WARMPOOL_SERVER_ALLOWED_HOSTS"].split(',').collect();
    ensure!(hosts.is_superset(&["browsers.example.com", "route.example", "pool.example"].into()), "{hosts:?}");
    let annotations = &full.only("Ingress")?["metadata"]["annotations"];
    ensure!(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "86400", "{annotations}");
    ensure!(
        annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "1g" && annotations["own.example/key"] == "value"
    );
    let profile = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker-image/seccomp.json"))?;
    let copied = full.objects.iter().filter_map(|object| object["data"]["profile.json"].as_str()).collect::<Vec<_>>();
    ensure!(copied == [&*profile], "the profile is that of the worker image");

    // Versions that clusters dropped or do not have yet.
    ensure!(full.only("PodDisruptionBudget")?["apiVersion"] == "policy/v1");
    let Some(old) = rendered("1.20", &everything()).await? else { return Ok(()) };
    ensure!(old.only("PodDisruptionBudget")?["apiVersion"] == "policy/v1beta1");
    Ok(())
}

fn plain_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

async fn probes_ask_where_and_how_the_daemon_listens(_: Stage) -> Result<()> {
    let tls = json!({
        "server.listen": "[::]:8443", "server.tls_cert": "/etc/warmpool/secrets/tls.crt",
        "server.tls_key": "/etc/warmpool/secrets/tls.key",
    });
    for (settings, port, scheme) in [
        (json!({}), 4444, "HTTP"),
        (json!({"server.listen": null, "server.tls_cert": null}), 4444, "HTTP"),
        (json!({"server.listen": "0.0.0.0:80"}), 80, "HTTP"),
        (tls, 8443, "HTTPS"),
    ] {
        let monitor = json!({"enabled": true, "tlsConfig": {"serverName": "browsers.example.com"}});
        let values = least(json!({"settings": settings, "serviceMonitor": monitor}));
        let Some(made) = rendered("1.34", &values).await? else { return Ok(()) };
        let container = &made.pod()?["containers"][0];
        ensure!(container["ports"] == json!([{"name": "http", "containerPort": port}]), "{container}");
        let asked = &container["readinessProbe"]["httpGet"];
        ensure!(*asked == json!({"path": "/healthz", "port": "http", "scheme": scheme}), "{asked}");
        ensure!(made.only("Service")?["spec"]["ports"][0]["targetPort"] == "http");
        let endpoint = &made.only("ServiceMonitor")?["spec"]["endpoints"][0];
        ensure!(endpoint["scheme"] == scheme.to_lowercase(), "{endpoint}");
        ensure!(endpoint["tlsConfig"]["serverName"] == "browsers.example.com", "{endpoint}");
        ensure!(made.notes.contains(&format!("{}://127.0.0.1:4444", scheme.to_lowercase())), "{}", made.notes);
    }
    Ok(())
}

async fn wrong_values_are_refused_by_name(_: Stage) -> Result<()> {
    let wrong = json!({
        "service": {"port": "many"}, "image": {"digest": "sha256:12"}, "settings": {"Max workers": 1}, "servce": {},
        "workers": {"pullPolicy": "Sometimes"}, "persistence": {"size": "large"}, "publicUrl": "browsers.example.com",
    });
    let Some(answer) = helm(&["render", "1.34"], &wrong, None).await? else { return Ok(()) };
    let error = answer["error"].as_str().context("an error")?;
    for part in [
        "'/service/port': got string, want integer",
        "'/image/digest'",
        "'/settings': additional properties 'Max workers'",
        "'servce' not allowed",
        "'/workers/pullPolicy'",
        "'/persistence/size'",
        "'/publicUrl'",
    ] {
        ensure!(error.contains(part), "{part} is not in: {error}");
    }
    for (values, remedy) in [
        (json!({}), "image.repository: name the registry"),
        (
            least(json!({"settings": {"server.listen": "127.0.0.1:4444"}})),
            "server.listen is 127.0.0.1:4444, which nobody",
        ),
        (least(json!({"settings": {"server.listen": "0.0.0.0:0"}})), "server.listen is 0.0.0.0:0, which nobody"),
        (least(json!({"settings": {"server.listen": 8443}})), "server.listen is 8443, which nobody"),
        (least(json!({"ingress": {"enabled": true}})), "ingress.hosts is empty: name the host"),
        (least(json!({"httpRoute": {"enabled": true}})), "httpRoute.parentRefs is empty: name the Gateway"),
    ] {
        let Some(answer) = helm(&["render", "1.34"], &values, None).await? else { return Ok(()) };
        ensure!(answer["error"].as_str().is_some_and(|error| error.contains(remedy)), "{answer}");
    }
    Ok(())
}

/// The chart's page lists what its schema allows, and the schema allows what the values have.
async fn its_readme_has_every_value(_: Stage) -> Result<()> {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(chart().join("values.schema.json"))?)?;
    let page = std::fs::read_to_string(chart().join("README.md"))?;
    let values = std::fs::read_to_string(chart().join("values.yaml"))?;
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut missing = Vec::new();
    for (name, value) in schema["properties"].as_object().context("properties")? {
        if name == "global" {
            continue;
        }
        let row = rows.iter().find(|row| row.contains(&format!("`{name}`")) || row.contains(&format!("`{name}.")));
        if row.is_none() || !values.lines().any(|line| line.starts_with(&format!("{name}:"))) {
            missing.push(name.clone());
        }
        for inner in value["properties"].as_object().into_iter().flatten().map(|(inner, _)| inner) {
            let named = [format!("`{name}.{inner}`"), format!("`.{inner}`"), format!("`{name}.{inner}.")];
            if !rows.iter().any(|row| row.contains(&format!("`{name}.")) && named.iter().any(|name| row.contains(name)))
            {
                missing.push(format!("{name}.{inner}"));
            }
        }
    }
    ensure!(missing.is_empty(), "in the schema, but not in the page or in the values: {missing:?}");
    Ok(())
}

/// Kinds that others bring into a cluster, as far as the API server has to know them.
fn foreign_kinds() -> Value {
    let kind = |group: &str, kind: &str, plural: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    };
    let items = [
        kind("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
        kind("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

pub(crate) async fn a_cluster_takes_the_chart_and_its_nodes_get_the_profile(stage: Stage) -> Result<()> {
    // The daemon's image stands on it, and so has what copies a profile.
    let base = Command::new(stack::root().join("scripts/base")).output().await?;
    let base = String::from_utf8(base.stdout)?;
    let (repository, tag) = base.trim().split_once(':').with_context(|| format!("a name and a tag: {base}"))?;
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let nodes = cluster.nodes();
    let folder = tempfile::tempdir()?;
    let kinds = folder.path().join("kinds.json");
    std::fs::write(&kinds, foreign_kinds().to_string())?;
    cluster.kubectl(&["apply", "--filename", &kinds.to_string_lossy()]).await?;
    let foreign = [
        "--for=condition=Established",
        "crd/httproutes.gateway.networking.k8s.io",
        "crd/servicemonitors.monitoring.coreos.com",
    ];
    cluster.kubectl(&[&["wait"], &foreign[..]].concat()).await?;

    let mut values = everything();
    values["image"] = json!({"repository": repository, "tag": tag, "pullPolicy": "Never"});
    let kubeconfig = cluster.kubeconfig();
    let Some(answer) = helm(&["install", NAMESPACE], &values, Some(&kubeconfig)).await? else { return Ok(()) };
    let installed = Rendered::new(answer)?;
    for object in &installed.objects {
        let kind = format!("{}/{}", object["kind"], plain_name(object)).replace('"', "");
        cluster.kubectl(&["get", &kind, "--namespace", NAMESPACE]).await?;
    }
    // What the API server did not know, it would have left out without a word.
    let kept =
        cluster.kubectl(&["get", "deployment/pool-warmpool", "--namespace", NAMESPACE, "--output", "json"]).await?;
    let kept: Value = serde_json::from_str(&kept)?;
    contains(&kept["spec"], &installed.only("Deployment")?["spec"], "spec")?;
    cluster
        .kubectl(&["rollout", "status", "daemonset/pool-warmpool-seccomp", "--namespace", NAMESPACE, "--timeout=60s"])
        .await?;
    let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker-image/seccomp.json");
    for node in &nodes {
        let copied = cluster.folder_of(node)?.join("lib/kubelet/seccomp/profiles/browsers.json");
        eventually!(
            format!("{node} has the profile"),
            20,
            std::fs::read(&copied).ok() == std::fs::read(&profile).ok()
        )?;
    }

    // Whose account may do what the Role says, and no more.
    let account = format!("system:serviceaccount:{NAMESPACE}:pool-warmpool");
    let may = async |verb: &str, what: &str, namespace: &str| -> bool {
        cluster.kubectl(&["auth", "can-i", verb, what, "--as", &account, "--namespace", namespace]).await.is_ok()
    };
    ensure!(may("create", "pods", NAMESPACE).await && may("list", "nodes", NAMESPACE).await);
    ensure!(!may("create", "pods", "default").await && !may("get", "secrets", NAMESPACE).await);
    ensure!(!may("delete", "nodes", NAMESPACE).await && !may("get", "pods", NAMESPACE).await);

    helm(&["uninstall", NAMESPACE], &json!({}), Some(&kubeconfig)).await?;
    let left = ["get", "all,configmap,secret,ingress,networkpolicy,role,rolebinding,pvc", "--namespace", NAMESPACE];
    let selector = ["--selector", "app.kubernetes.io/instance=pool", "--output", "name"];
    let left = [&left[..], &selector].concat();
    let only_data =
        async || cluster.kubectl(&left).await.is_ok_and(|left| left == "persistentvolumeclaim/pool-warmpool");
    eventually!("all but the data is gone", 60, only_data().await)?;
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?;
    stage.keep(cluster);
    Ok(())
}

/// Where a node keeps the daemon's data, below `/var/lib`.
const DATA: &str = "warmpool-data";

/// A volume of the first node, as whoever runs a cluster without a provisioner makes it.
fn volume() -> Value {
    let on_first = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": format!("/var/lib/{DATA}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_first]}]}},
        },
    })
}

/// The daemon's Pod that serves: its name and its address.
async fn serving(cluster: &Kubernetes) -> Result<(String, String)> {
    let rollout = ["rollout", "status", "deployment/pool-warmpool", "--namespace", SERVING, "--timeout=90s"];
    if let Err(error) = cluster.kubectl(&rollout).await {
        let logs = ["logs", "deployment/pool-warmpool", "--namespace", SERVING, "--tail", "30"];
        return Err(error.context(cluster.kubectl(&logs).await.unwrap_or_default()));
    }
    let pods =
        ["get", "pods", "--namespace", SERVING, "--selector", "app.kubernetes.io/instance=pool", "--output", "json"];
    let pods: Value = serde_json::from_str(&cluster.kubectl(&pods).await?)?;
    let mut pods = pods["items"].as_array().into_iter().flatten();
    let pod = pods.find(|pod| pod["metadata"]["deletionTimestamp"].is_null()).context("a Pod of the daemon")?;
    Ok((plain_name(pod).to_owned(), pod["status"]["podIP"].as_str().context("an address")?.to_owned()))
}

pub(crate) async fn the_daemon_in_the_chart_gives_sessions_that_outlive_its_pod(stage: Stage) -> Result<()> {
    let browser = docker::image("chromium");
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    stack::load(&[cluster.engine("node-1")?]).await?;
    let data = cluster.folder_of("node-1")?.join("lib").join(DATA);
    std::fs::create_dir(&data)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("volume.json");
    std::fs::write(&file, volume().to_string())?;
    cluster.kubectl(&["apply", "--filename", &file.to_string_lossy()]).await?;
    let values = json!({
        "image": {"repository": format!("{}/daemon", stack::STACK), "pullPolicy": "Never"},
        "workers": {"images": {"chromium": browser}, "pullPolicy": "never"},
        "settings": {
            "pool.max_workers": 4, "pool.chromium_headless": 1, "pool.chromium_headed": 0, "pool.firefox_headed": 0,
            "pool.webkit_headed": 0, "worker.memory": "1GiB", "kubernetes.reserved_cpus": 0.1, "kubernetes.lease": "10s",
            "kubernetes.timeout": "3s",
        },
    });
    let kubeconfig = cluster.kubeconfig();
    let Some(answer) = helm(&["install", SERVING], &values, Some(&kubeconfig)).await? else { return Ok(()) };
    Rendered::new(answer)?;
    let (first, address) = serving(&cluster).await?;
    let within = async |pod: &str, command: &[&str]| {
        cluster.kubectl(&[&["exec", pod, "--namespace", SERVING, "--"], command].concat()).await
    };
    let key = within(&first, &["cat", "/var/lib/warmpool/first-key"]).await?;
    let api = Api::new(format!("http://{address}:4444")).with_key(&key);
    // Its findings on descriptors are the test machine's.
    let doctor = format!("{:?}", within(&first, &["warmpool", "doctor"]).await);
    ensure!(!doctor.contains("may not"), "{doctor}");
    let made = api.post("/sessions/create", &json!({"url": "about:blank", "headless": true})).await?.ok()?;
    let session = Session::from_body(&api, made.clone())?;
    // The client is there until the daemon goes. From then on the next one waits for it.
    let client = session.cdp().await?;
    session.evaluate("document.title = 'kept'").await?;

    // The Deployment's next Pod has another address; the session is the same.
    cluster.kubectl(&["delete", "pod", &first, "--namespace", SERVING]).await?;
    drop(client);
    let (second, next) = serving(&cluster).await?;
    ensure!(second != first, "{first} serves again");
    let api = Api::new(format!("http://{next}:4444")).with_key(&key);
    let session = Session::from_body(&api, serde_json::from_str(&made.to_string().replace(&address, &next))?)?;
    stack::is_kept(&session).await?;

    helm(&["uninstall", SERVING], &json!({}), Some(&kubeconfig)).await?;
    let left = async || cluster.kubectl(&["get", "pods,leases", "--namespace", SERVING, "--output", "wide"]).await;
    // The daemon's Pod has `terminationGracePeriodSeconds`, a minute, to end.
    if let Err(late) = eventually!("workers go with the release", 90, left().await.is_ok_and(|left| left.is_empty())) {
        return Err(late.context(left().await.unwrap_or_default()));
    }
    stage.keep(cluster);
    Ok(())
}

/// Whether `whole` has everything that `part` has.
fn contains(whole: &Value, part: &Value, path: &str) -> Result<()> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().try_for_each(|(name, part)| {
            contains(whole.get(name).unwrap_or(&Value::Null), part, &format!("{path}.{name}"))
        }),
        (Value::Array(whole), Value::Array(part)) => {
            ensure!(whole.len() >= part.len(), "{path} is {whole:?}");
            whole
                .iter()
                .zip(part)
                .enumerate()
                .try_for_each(|(at, (whole, part))| contains(whole, part, &format!("{path}[{at}]")))
        }
        _ => {
            ensure!(whole == part, "{path} is {whole}, not {part}");
            Ok(())
        }
    }
}
