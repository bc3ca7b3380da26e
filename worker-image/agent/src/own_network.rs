//! A network of the worker's own that leads nowhere, for the browser and all that the agent starts.
//!
//! Docker keeps the containers of a bridge apart, but not those of an overlay. So an agent there leaves the network once it
//! listens: its listener stays, and everything else of the container moves to a namespace of its own. From then on nobody in
//! the container can send a packet outside, and no other container finds a port of the browser's.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::TryStreamExt as _;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, new_connection};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Both ends of a cable that is plugged into nothing else. A browser without any interface but loopback says that it is
/// offline, and `veth` is the one kind that every engine with networks has.
const CABLE: [&str; 2] = ["eth0", "eth1"];
/// Reserved for documentation (RFC 5737), so that it is nobody's.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 32;
const LOOPBACK: &str = "lo";

/// Why a worker cannot leave its network.
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
}

/// Moves this process, and so all that it will start, to a network of its own. What it has open stays where it is.
///
/// To be called before there is a second thread, and while the process may still be dumped: only then does the kernel let
/// it write its own user map.
/// Errors: [`NetworkError`].
pub(crate) async fn enter() -> Result<(), NetworkError> {
    make_namespace().map_err(NetworkError::Namespace)?;
    let (connection, handle, _) = new_connection()?;
    let connection = tokio::spawn(connection);
    set_up(&handle).await?;
    connection.abort();
    // The rights over the namespace came with it, and nothing needs them any more.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| NetworkError::Namespace(error.into()))
}

/// Only the owner of a user namespace may make a network, so this makes both. The user stays who they are.
fn make_namespace() -> io::Result<()> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
}

async fn set_up(handle: &Handle) -> Result<(), NetworkError> {
    let [near, far] = CABLE;
    handle.link().add(LinkVeth::new(near, far).build()).execute().await?;
    let mut links = handle.link().get().match_name(near.to_owned()).execute();
    let link = links.try_next().await?.ok_or(NetworkError::Missing(near))?;
    handle.address().add(link.header.index, IpAddr::V4(ADDRESS), PREFIX).execute().await?;
    for name in [LOOPBACK, near, far] {
        handle.link().set(LinkUnspec::new_with_name(name).up().build()).execute().await?;
    }
    Ok(())
}
