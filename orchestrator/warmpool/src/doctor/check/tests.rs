//! A sound host, and one flaw at a time.

use super::{host::rounded, *};
use crate::doctor::facts::HostFacts;
use crate::doctor::{Directory, DockerFacts, ImageFact, Needs, Port, Socket, healthy};
use warmpool_config::{ByteSize, SelinuxType};
use warmpool_core::browser::Engine;
use warmpool_runtime::EngineKind;

fn image(engine: Engine, there: bool, needed: bool) -> ImageFact {
    ImageFact { engine, name: format!("warmpool/{engine}:latest"), there, needed }
}

/// A host on which nothing is wrong, with two engines of which one is not installed and nobody asks for it.
fn sound() -> Facts {
    let directory = |path: &str| Directory { path: path.into(), writable: Ok(()), free: Some(100 << 30) };
    Facts {
        settings: "/etc/warmpool/warmpool.toml; no variables or flags".to_owned(),
        needs: Needs {
            listen: ([127, 0, 0, 1], 4444).into(),
            max_connections: 1000,
            max_workers: 12,
            worker_memory: ByteSize(2 << 30),
            worker_cpus: 2.0,
            sandbox: true,
            runtime: Some("runc".to_owned()),
            selinux_type: None,
            docker_socket: "/var/run/docker.sock".into(),
            leaves_network: false,
            pages_out: true,
            min_free: ByteSize(512 << 20),
        },
        socket: Socket::Open,
        cluster: None,
        docker: Ok(DockerFacts {
            api_version: "1.41".to_owned(),
            server_version: "20.10.24".to_owned(),
            kind: EngineKind::Docker,
            rootless: false,
            has_worker_user: true,
            oci_runtime: Some(("runc".to_owned(), "1.3.3".to_owned())),
            cgroup_version: "2".to_owned(),
            memory_limit: true,
            cpu_limit: true,
            pids_limit: true,
            security_options: vec!["name=seccomp,profile=default".to_owned()],
            root_dir: "/var/lib/docker".into(),
            driver: "overlay2".to_owned(),
            runtimes: vec!["runc".to_owned()],
            images: vec![image(Engine::Chromium, true, true), image(Engine::Firefox, false, false)],
            renderer: ("warmpool/scene:latest".to_owned(), false),
        }),
        host: HostFacts {
            user_namespaces: true,
            max_user_namespaces: Some(63_000),
            unprivileged_userns_clone: Some(1),
            apparmor_restrict_userns: None,
            open_files: Some(1 << 20),
            memory: Some(16 << 30),
            swap: Some(8 << 30),
            selinux_enforces: None,
        },
        may_page_out: Ok(()),
        data_dir: directory("/var/lib/warmpool"),
        docker_root: Some(directory("/var/lib/docker")),
        port: Port::Free,
        starting: false,
        tls: Some(Ok(())),
        authorities: Ok(0),
    }
}

fn docker(facts: &mut Facts) -> &mut DockerFacts {
    facts.docker.as_mut().unwrap()
}

#[test]
fn a_sound_host_has_no_complaints() {
    let findings = check(&sound());
    assert!(findings.iter().all(|finding| finding.level == Level::Ok && finding.remedy.is_none()), "{findings:?}");
    assert_eq!(findings.len(), 18);
    let settings = findings.last().map(|finding| (finding.title, finding.detail.as_str()));
    assert_eq!(settings, Some(("Settings", "/etc/warmpool/warmpool.toml; no variables or flags")));
}

#[test]
fn a_silent_engine_is_explained_by_its_socket() {
    for (socket, detail, remedy) in [
        (Socket::Missing, "there is no /var/run/docker.sock", "install one"),
        (Socket::OtherFile, "is not a socket", "docker.host"),
        (Socket::Denied, "may not use", "group docker"),
        (Socket::Refused, "has stopped", "systemctl start docker"),
        (Socket::Open, "cannot be used: timed out", "log"),
    ] {
        let findings = check(&Facts { socket, docker: Err("timed out".to_owned()), ..sound() });
        let first = &findings[0];
        assert_eq!((first.level, first.title), (Level::Fail, "Container engine"));
        assert!(first.detail.contains(detail), "{}", first.detail);
        assert!(first.remedy.as_ref().unwrap().contains(remedy), "{first:?}");
        assert!(findings[1..].iter().all(|finding| finding.level == Level::Ok), "nothing is said of what is not known");
    }
}

#[test]
fn podman_is_named_and_has_remedies_of_its_own() {
    let mut facts = sound();
    (docker(&mut facts).kind, docker(&mut facts).rootless) = (EngineKind::Podman, true);
    docker(&mut facts).memory_limit = false;
    let findings = check(&facts);
    assert!(findings[0].detail.starts_with("Podman 20.10.24, rootless, API 1.41"), "{findings:?}");
    assert!(findings[1].remedy.as_ref().unwrap().contains("Delegate=yes"), "{findings:?}");
    docker(&mut facts).cgroup_version = "1".to_owned();
    assert!(check(&facts)[1].remedy.as_ref().unwrap().contains("unified_cgroup_hierarchy"));
    docker(&mut facts).has_worker_user = false;
    let findings = check(&facts);
    let users = findings.iter().find(|finding| finding.title == "User ids").unwrap();
    assert!(users.level == Level::Fail && users.remedy.as_ref().unwrap().contains("--add-subuids"), "{users:?}");
    for (socket, remedy) in [(Socket::Denied, "as this user"), (Socket::Refused, "systemctl start podman.socket")] {
        let needs = Needs { docker_socket: "/run/podman/podman.sock".into(), ..sound().needs };
        let findings = check(&Facts { socket, needs, docker: Err("no".to_owned()), ..sound() });
        assert!(findings[0].remedy.as_ref().unwrap().contains(remedy), "{findings:?}");
    }
}

#[test]
fn what_labels_and_maps_workers_is_told() {
    let mut facts = sound();
    docker(&mut facts).security_options.extend(["name=selinux".to_owned(), "name=userns".to_owned()]);
    let selinux = |facts: &Facts| {
        let found = check(facts).into_iter().find(|finding| finding.title == "SELinux");
        found.map(|finding| (finding.level, finding.detail))
    };
    assert!(check(&facts)[0].detail.starts_with("Docker 20.10.24, users remapped, API"), "{:?}", check(&facts)[0]);
    assert_eq!(selinux(&facts), None);
    facts.host.selinux_enforces = Some(false);
    assert!(selinux(&facts).is_some_and(|(level, said)| level == Level::Ok && said.starts_with("permissive")));
    facts.host.selinux_enforces = Some(true);
    assert!(selinux(&facts).is_some_and(|(level, said)| level == Level::Ok && said.contains("label of its container")));
    facts.needs.selinux_type = Some(SelinuxType::Named("container_userns_t".to_owned()));
    assert!(selinux(&facts).is_some_and(|(level, said)| level == Level::Ok && said.contains("container_userns_t")));
}

/// CVE-2024-21626, CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881: mended in 1.2.8, 1.3.3 and 1.4.0-rc.3.
#[test]
fn a_runc_that_containers_get_out_of_is_named() {
    let level = |version: &str| {
        let mut facts = sound();
        docker(&mut facts).oci_runtime = Some(("runc".to_owned(), version.to_owned()));
        let found = check(&facts).into_iter().find(|finding| finding.title == "runc").unwrap();
        assert!(found.level == Level::Ok || found.remedy.is_some(), "{version}: what helps");
        found.level
    };
    for open in ["1.0.0-rc93", "1.1.11", "1.1.12", "1.2.7", "v1.3.2", "1.3.0-rc.2", "1.4.0-rc.1", "1.4.0-rc.2"] {
        assert_eq!(level(open), Level::Warn, "{open}");
    }
    // Distributions mend old versions, and their numbers do not tell.
    for closed in ["1.2.8", "1.3.3", "1.4.0-rc.3", "1.4.0", "v1.4.1+dev", "2.0.0", "1.1.5+ds1-1+deb12u1"] {
        assert_eq!(level(closed), Level::Ok, "{closed}");
    }
}

/// A change to a sound host, and the only complaint it makes: level, title, and words of its detail.
type Case = (fn(&mut Facts), Level, &'static str, &'static str);

#[test]
fn each_flaw_is_found_alone() {
    use Level::{Fail, Warn};
    let cases: &[Case] = &[
        (|f| docker(f).api_version = "1.40".to_owned(), Fail, "Container engine", "older than API 1.41"),
        (|f| docker(f).memory_limit = false, Fail, "Limits", "no memory limits"),
        (|f| docker(f).cpu_limit = false, Fail, "Limits", "no processor limits"),
        (|f| docker(f).pids_limit = false, Fail, "Limits", "no process limits"),
        (|f| docker(f).security_options.clear(), Fail, "System call filter", "no seccomp"),
        (
            |f| docker(f).oci_runtime = Some(("runc".to_owned(), "1.1.5".to_owned())),
            Warn,
            "runc",
            "1.1.5 has known ways out",
        ),
        (|f| docker(f).oci_runtime = Some(("runc".to_owned(), "1.2.7".to_owned())), Warn, "runc", "known ways out"),
        (|f| docker(f).oci_runtime = Some(("runc".to_owned(), "v1.3.2".to_owned())), Warn, "runc", "known ways out"),
        (|f| f.needs.runtime = Some("runsc".to_owned()), Fail, "Container runtime", "no runtime runsc, only runc"),
        (|f| f.host.swap = Some(0), Warn, "Paging out", "no swap"),
        (|f| f.may_page_out = Err("read-only".to_owned()), Warn, "Paging out", "may not page workers out: read-only"),
        (|f| f.host.selinux_enforces = Some(true), Warn, "SELinux", "the engine labels no containers"),
        (
            |f| {
                f.host.selinux_enforces = Some(true);
                docker(f).security_options.push("name=selinux".to_owned());
                f.needs.selinux_type = Some(SelinuxType::Disabled);
            },
            Warn,
            "SELinux",
            "does not confine workers",
        ),
        (|f| docker(f).images[0].there = false, Fail, "Worker image", "no warmpool/chromium:latest"),
        (|f| docker(f).images[1].needed = true, Fail, "Worker image", "no warmpool/firefox:latest"),
        (|f| f.docker_root.as_mut().unwrap().free = Some(1 << 30), Warn, "Engine's disk", "only 1GiB free"),
        (|f| docker(f).driver = "vfs".to_owned(), Warn, "Engine's storage", "copies the whole image"),
        (|f| f.needs.sandbox = false, Warn, "Browser sandbox", "worker.sandbox is false"),
        (|f| f.host.user_namespaces = false, Fail, "Browser sandbox", "no user namespaces"),
        (|f| f.host.max_user_namespaces = Some(0), Fail, "Browser sandbox", "user.max_user_namespaces is 0"),
        (
            |f| f.host.unprivileged_userns_clone = Some(0),
            Fail,
            "Browser sandbox",
            "kernel.unprivileged_userns_clone is 0",
        ),
        (|f| f.host.apparmor_restrict_userns = Some(1), Warn, "Browser sandbox", "AppArmor may"),
        (|f| f.host.memory = Some(8 << 30), Warn, "Memory", "too little when all are busy"),
        (|f| f.needs.worker_memory = ByteSize(32 << 30), Warn, "Memory", "may take all"),
        (
            |f| f.data_dir.writable = Err("/var/lib: Permission denied".to_owned()),
            Fail,
            "Data directory",
            "Permission denied",
        ),
        (|f| f.data_dir.free = Some(100 << 20), Fail, "Data directory", "only 100MiB free"),
        (|f| f.data_dir.free = Some(900 << 20), Warn, "Data directory", "is near"),
        (|f| f.port = Port::Taken(Some(("nginx".to_owned(), 7))), Fail, "Port", "taken by nginx, process 7"),
        (|f| f.port = Port::Taken(None), Fail, "Port", "taken by another process"),
        (|f| f.port = Port::Denied, Fail, "Port", "may not listen"),
        (|f| f.port = Port::NotOurs, Fail, "Port", "not an address of this host"),
        (|f| f.port = Port::Unusable("no".to_owned()), Fail, "Port", "cannot listen"),
        (|f| f.authorities = Err("/ca.pem: no certificate".to_owned()), Fail, "Authorities", "/ca.pem"),
        (|f| f.tls = Some(Err("cannot read /k.pem".to_owned())), Fail, "Certificate", "cannot read /k.pem"),
        (|f| f.host.open_files = Some(1024), Warn, "Open files", "1000 connections and 12 workers may need 3352"),
    ];
    for (flaw, level, title, words) in cases {
        let mut facts = sound();
        flaw(&mut facts);
        let findings = check(&facts);
        let complaints: Vec<_> = findings.iter().filter(|finding| finding.level > Level::Ok).collect();
        assert_eq!(complaints.len(), 1, "{title}, {words}: {complaints:?}");
        assert_eq!((complaints[0].level, complaints[0].title), (*level, *title), "{words}");
        assert!(complaints[0].detail.contains(words), "{words}: {}", complaints[0].detail);
        assert!(complaints[0].remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()));
        assert_eq!(healthy(&findings), *level != Fail);
    }
}

#[test]
fn what_nobody_notices_is_told_at_the_start() {
    let told = |change: fn(&mut Facts)| {
        let mut facts = sound();
        change(&mut facts);
        let docker = facts.docker.as_ref().unwrap();
        silent_flaws(docker, &facts.needs).into_iter().map(|finding| finding.title).collect::<Vec<_>>()
    };
    assert_eq!(told(|_| ()), Vec::<&str>::new());
    assert_eq!(told(|f| docker(f).memory_limit = false), ["Limits"]);
    assert_eq!(told(|f| docker(f).security_options.clear()), ["System call filter"]);
    assert_eq!(told(|f| docker(f).driver = "vfs".to_owned()), ["Engine's storage"]);
    // Such an engine starts no worker at all, which nobody overlooks.
    assert_eq!(told(|f| docker(f).images[0].there = false), Vec::<&str>::new());
}

#[test]
fn what_only_looks_wrong_is_no_complaint() {
    let cases: &[fn(&mut Facts)] = &[
        |f| docker(f).oci_runtime = Some(("runc".to_owned(), "1.1.5+ds1-1+deb12u1".to_owned())),
        |f| docker(f).oci_runtime = Some(("runc".to_owned(), "1.4.0-rc.3".to_owned())),
        |f| docker(f).oci_runtime = None,
        |f| docker(f).oci_runtime = Some(("crun".to_owned(), "1.8.1".to_owned())),
        |f| (docker(f).kind, docker(f).rootless) = (EngineKind::Podman, true),
        |f| docker(f).api_version = "1.50".to_owned(),
        |f| (docker(f).cpu_limit, f.needs.worker_cpus) = (false, 0.0),
        |f| f.port = Port::Taken(Some(("warmpool".to_owned(), 7))),
        |f| (f.port, f.starting) = (Port::Taken(Some(("warmpool".to_owned(), 7))), true),
        |f| f.host.open_files = Some(3352),
        |f| f.needs.max_workers = 16,
        |f| f.needs.runtime = None,
        |f| (f.host.max_user_namespaces, f.host.unprivileged_userns_clone) = (None, None),
        |f| (f.host.memory, f.host.open_files, f.data_dir.free) = (None, None, None),
    ];
    for (number, change) in cases.iter().enumerate() {
        let mut facts = sound();
        change(&mut facts);
        let findings = check(&facts);
        assert!(findings.iter().all(|finding| finding.level == Level::Ok), "case {number}: {findings:?}");
    }
}

#[test]
fn a_worker_without_a_network_of_its_own_is_held_all_the_same() {
    let mut facts = sound();
    facts.host.max_user_namespaces = Some(0);
    facts.needs.sandbox = false;
    for (leaves_network, level, words) in [(false, Level::Warn, "offline"), (true, Level::Fail, "no worker starts")] {
        facts.needs.leaves_network = leaves_network;
        let findings = check(&facts);
        let found = findings.iter().find(|finding| finding.title == "Workers' network").unwrap();
        assert_eq!(found.level, level);
        assert!(found.detail.contains(words) && found.detail.contains("max_user_namespaces"), "{found:?}");
    }
}

#[test]
fn sizes_are_rounded_for_people() {
    for (bytes, shown) in
        [(0, "0B"), (2048, "2KiB"), (900 << 20, "900MiB"), (1_610_612_736, "1.5GiB"), (100 << 30, "100GiB")]
    {
        assert_eq!(rounded(bytes), shown);
    }
}
