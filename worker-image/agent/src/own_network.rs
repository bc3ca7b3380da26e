//! A network of the worker's own that leads nowhere, for the browser and all that the agent starts.
//!
//! The agent makes it, and not the container engine, for two reasons. An engine's network costs time at each start and each
//! removal of a container, and somebody can set it up wrongly. And an agent on TCP is on a network where other workers and the
//! host are: once it listens, its listener stays there, and everything else of the container moves here. From then on nobody in
//! the container can send a packet outside, and no other container finds a port of the browser's.
//!
//! Where the agent has a Unix socket, its container has no network to begin with, so this one only makes pages find
//! themselves online. Where it has a port, this one is the fence.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::TryStreamExt as _;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};
use rtnetlink::packet_route::link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, new_connection};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::listener::Listener;

/// Both ends of a cable that is plugged into nothing else. A browser without any interface but loopback says that it is
/// offline, and `veth` is the one kind that every engine with networks has.
const CABLE: [&str; 2] = ["eth0", "eth1"];
/// Reserved for documentation (RFC 5737), so that it is nobody's.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const PREFIX: u8 = 32;
const LOOPBACK: &str = "lo";

/// Why a worker has no network of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// The kernel or the engine of this host forbids it.
    #[error(
        "the agent may not make a namespace: {0}; the engine of this host needs the profile worker-image/seccomp.json"
    )]
    Namespace(#[source] io::Error),
    /// The namespace is there, and its network cannot be set up.
    #[error("the network of the browser cannot be set up: {0}")]
    Link(#[from] rtnetlink::Error),
    /// The kernel gives no connection to set it up over.
    #[error("the network of the browser cannot be set up: {0}")]
    Netlink(#[from] io::Error),
    /// An interface that was made is not there.
    #[error("the network of the browser has no {0}")]
    Missing(&'static str),
    /// The agent would keep the rights over the namespace.
    #[error("the agent cannot give up its rights over the network of the browser: {0}")]
    Rights(#[source] io::Error),
}

/// Moves this process, and all that it will start, to a network of its own. What it has open stays where it is.
///
/// To be called before there is a second thread, and while the process may still be dumped: only then does the kernel let
/// it write its own user map.
/// Errors: [`NetworkError`], where the worker would stay on a network, or the agent would keep rights. A cable that cannot be made
/// is none.
pub(crate) async fn enter(listener: &Listener) -> Result<(), NetworkError> {
    let made = make().await;
    // The rights over the namespaces came with them, and nothing needs them any more.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| NetworkError::Rights(error.into()))?;
    match (made, listener) {
        (Err(error @ NetworkError::Namespace(_)), Listener::Tcp(_)) => Err(error),
        // Here the worker is off every network, and without a cable.
        (Err(error), _) => {
            tracing::warn!(%error, "pages find themselves offline: navigator.onLine is false");
            Ok(())
        }
        (Ok(()), _) => Ok(()),
    }
}

async fn make() -> Result<(), NetworkError> {
    make_namespaces().map_err(NetworkError::Namespace)?;
    let (connection, handle, _) = new_connection()?;
    let connection = tokio::spawn(connection);
    let made = set_up(&handle).await;
    connection.abort();
    made
}

/// Only the owner of a user namespace may make a network, so this makes both. The user stays who they are.
///
/// One after the other: a kernel that gives out user namespaces without rights then leaves the process on the network on which
/// it is, where loopback works.
fn make_namespaces() -> io::Result<()> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

async fn set_up(handle: &Handle) -> Result<(), NetworkError> {
    let up = async |name: &str| handle.link().set(LinkUnspec::new_with_name(name).up().build()).execute().await;
    // First, since the worker's programs can do without the cable alone.
    up(LOOPBACK).await?;
    let [near, far] = CABLE;
    handle.link().add(LinkVeth::new(near, far).build()).execute().await?;
    let mut links = handle.link().get().match_name(near.to_owned()).execute();
    let link = links.try_next().await?.ok_or(NetworkError::Missing(near))?;
    // The kernel would give each end an address of IPv6 and say so a second or two later, once nobody else has it. Chromium
    // would then fail what it is loading with ERR_NETWORK_CHANGED.
    for end in CABLE {
        let family = vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)])];
        let attribute = LinkAttribute::AfSpecUnspec(family);
        let none = LinkUnspec::new_with_name(end).append_extra_attribute(attribute).build();
        if let Err(error) = handle.link().set(none).execute().await {
            tracing::debug!(%error, "this kernel has no IPv6, and so no address of it");
        }
    }
    handle.address().add(link.header.index, IpAddr::V4(ADDRESS), PREFIX).execute().await?;
    up(near).await?;
    up(far).await?;
    Ok(())
}
