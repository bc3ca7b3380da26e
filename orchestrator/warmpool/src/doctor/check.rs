//! The judgement: facts in, findings out. Pure.

mod cluster;
mod engine;
mod host;
#[cfg(test)]
mod tests;

use super::{DockerFacts, Facts, Finding, Level, Needs};

const SETTINGS: &str = "Settings";

/// Judges the facts: one finding for each thing looked at, in the order in which they are best mended.
pub(crate) fn check(facts: &Facts) -> Vec<Finding> {
    // The engine of this host, and its kernel, matter where workers run on it.
    if let Some(cluster) = &facts.cluster {
        let mut findings = cluster::cluster(cluster);
        findings.extend([host::data_dir(&facts.data_dir, &facts.needs), host::port(facts), host::open_files(facts)]);
        findings.extend(facts.tls.as_ref().map(host::certificate));
        findings.extend(host::authorities(&facts.authorities));
        findings.push(ok(SETTINGS, facts.settings.as_str()));
        return findings;
    }
    let mut findings = vec![engine::engine(facts)];
    if let Ok(docker) = &facts.docker {
        findings.extend([engine::limits(docker, &facts.needs), engine::seccomp(docker), engine::runc(docker)]);
        findings.extend(engine::users(docker));
        findings.extend(engine::runtime(docker, &facts.needs));
        findings.extend(engine::selinux(docker, facts));
        findings.extend(docker.images.iter().map(engine::worker_image));
        findings.push(engine::renderer_image(&docker.renderer));
        findings.extend(engine::storage(docker));
        findings.extend(facts.docker_root.as_ref().map(|root| engine::engine_space(root, docker.kind)));
    }
    findings.push(host::sandbox(facts));
    findings.extend(host::network(facts));
    findings.push(host::memory(facts));
    findings.extend(host::page_out(facts));
    findings.extend([host::data_dir(&facts.data_dir, &facts.needs), host::port(facts), host::open_files(facts)]);
    findings.extend(facts.tls.as_ref().map(host::certificate));
    findings.extend(host::authorities(&facts.authorities));
    findings.push(ok(SETTINGS, facts.settings.as_str()));
    findings
}

/// What the container engine lacks while the daemon serves as if nothing were missing.
pub(crate) fn silent_flaws(docker: &DockerFacts, needs: &Needs) -> Vec<Finding> {
    let findings = [engine::limits(docker, needs), engine::seccomp(docker)];
    findings.into_iter().chain(engine::storage(docker)).filter(|finding| finding.level > Level::Ok).collect()
}

fn ok(title: &'static str, detail: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, title, detail: detail.into(), remedy: None }
}

fn warn(title: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Warn, title, detail: detail.into(), remedy: Some(remedy.into()) }
}

fn fail(title: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Fail, ..warn(title, detail, remedy) }
}
