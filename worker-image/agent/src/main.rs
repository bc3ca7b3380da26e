//! PID 1 of a worker container.
//!
//! The agent starts a browser, its driver and its display, tells the daemon when a page can be
//! driven and how the browser ends, and is the one address at which the container is reached.
//!
//! | module | what it holds |
//! |---|---|
//! | `agent`, `worker` | the life of a worker: claim, boot, launch, orphaned |
//! | `status` | state and event stream, under one lock, so that the stream never contradicts `/health` |
//! | `listener`, `server`, `body`, `percent`, `error` | that address: socket, routes, bodies, names, errors |
//! | `own_network`, `ports` | the other programs' network, which leads nowhere, and their ports, hidden from pages |
//! | `attach`, `handover`, `tunnel`, `upstream` | clients' websockets and commands on their way to browser and driver |
//! | `egress`, `socks` | the browser's connections, handed to the daemon |
//! | `files`, `archive` | uploads and downloads |
//! | `engine` | the seam to the browser engines; `chromium`, `firefox` and `webkit` are behind it |
//! | `ads` | which requests are for ads, and what pages hide |
//! | `captchas` | challenges that pages put to their visitors |
//! | `log` | what happens in the browser, kept until the daemon reads it |
//! | `storage` | what browsers keep for sites, read and written |
//! | `wanted`, `profile_folders` | what a session's later browsers are to have, and where their profiles are |
//! | `extensions` | browser extensions, kept until a browser loads them |
//! | `folder` | a browser's profile folder, unpacked and packed |
//! | `cdp` | the agent's own DevTools connection |
//! | `pages` | which pages there are, and what a viewer does to them |
//! | `recording` | the display as a stream of video |
//! | `clipboard` | the text on a display's clipboard |
//! | `window_manager` | the window manager of a display |
//! | `process`, `program`, `freeze`, `oom`, `display`, `shim` | the container's processes |
//! | `domain`, `execution`, `probe` | which programs may be executed, and tries of what must not work |
//!
//! # Decisions
//!
//! - *The secret comes with the first call*, `POST /claim`, and not by the environment, so neither `docker inspect` nor a
//!   list of processes shows it.
//! - *Frozen, not paused.* The agent drives the first page until it has painted, reports `warm`, and two seconds later
//!   stops every other process. `docker pause` takes 25 ms a call and the container engine's attention; a signal to all
//!   processes of the container's own pid namespace takes half a millisecond. A launch that needs the browser continues them
//!   first. Any other answers before that, and they go on with the next call that may need the browser, or two milliseconds
//!   later: a dozen processes that wake up compete for the processor with the daemon, whose client waits for its answer.
//! - *Settings are applied here* (locales, user agent, viewport), at run time, without a relaunch, over a channel of the
//!   agent's own that lives as long as the session. So they survive a restart of the daemon and cost no round trip on the
//!   network. The agent's connection attaches to each target before it runs; a client's own override wins. Without
//!   settings there is nothing to notice.
//! - *The network of the worker is the agent's own* (`own_network`), a namespace with a cable that is plugged into nothing,
//!   whatever network its container has. So no engine has to make a network that isolates, and none is to be checked.
//! - *Nothing listens on a network.* The agent has a Unix socket in a folder that the daemon shares with this one worker
//!   and closes before the agent starts its first program. With `worker.agent_transport = "tcp"`, and on a Swarm, it has
//!   port 6669 on the network that it leaves. Debuggers and drivers listen on loopback ports only, where a page could reach them
//!   (`location = 'http://127.0.0.1:9515/shutdown'` used to end a session), so `worker-image/unix-ports` replaces these
//!   ports by Unix sockets. It needs no privilege, works below every container runtime, and fails closed: without it the
//!   worker never becomes ready. A packet filter would need `NET_ADMIN`, and a network namespace for the driver leaves
//!   the debugger where it is.
//! - *Two walls against other programs.* The image closes all programs that an engine does not need
//!   (`worker-image/common/close-programs`): their folders are open to root alone, and what a worker runs was moved to
//!   `/usr/local/bin`. Above that stands Landlock (`domain`), which says nothing about memory, so the seccomp profile
//!   lets nobody make memory that can be executed by name. The X server starts xkbcomp through a shell; a preloaded
//!   library (`worker-image/xkbcomp`) takes the shell's place.
//! - *Messages do not pass through the agent*, which would cost each of them two more wake-ups. It hands the daemon connected
//!   sockets (`handover`), and hears of the few messages that concern it (`attach`).
//! - *A window manager of our own*, a thread of the agent: packaged ones would bring 60 MB and more, or a title bar, or
//!   menus.
//!
//! # The engines
//!
//! *Chromium.* The agent's channel is a DevTools connection. chromedriver attaches by `debuggerAddress`; with its session
//! the agent makes `navigator.webdriver` true in every target (`chromium/targets.rs`).
//!
//! *Firefox.* Stock Firefox has one BiDi session, and that is the client's. So an autoconfig file in the image has the
//! browser connect to a Unix socket of the agent, and carries out its few commands with the browser's own rights.
//! geckodriver, built from crates.io because Debian has none, attaches by `--connect-existing`. Options that only a fresh
//! process takes make the agent start Firefox anew at the same ports. The agent ends the BiDi session with its last
//! connection, even when that connection just vanished; otherwise Firefox would refuse the next client.
//!
//! *WebKit.* MiniBrowser takes most of what a session asks for on its command line only. So the image has a browser of some
//! 700 lines of C over libwebkit2gtk (`worker-image/webkit`), which takes its orders at run time, on its standard input.
//! WebKitWebDriver attaches by `-t`, and takes the picture that was painted last, so the agent has the pages painted
//! before a screenshot. For websockets the agent speaks the remote inspector's own protocol, because WebKitGTK's HTTP
//! server for it and the driver exclude each other in one browser. Playwright keeps nothing of a URL but its host, so a
//! header at `GET /json` identifies a WebKit session. The browser records which window came to the front last, and gives
//! the keyboard to the next when one closes. WebKit's own sandbox (bubblewrap) cannot run in a container without
//! privileges: there, the container alone holds a page.
//!
//! *CAPTCHAs.* One script looks into documents, in a world that pages cannot see: an isolated world in Chromium and WebKit,
//! a sandbox with the page's own principal in Firefox. It finds challenges, waits for their end and fills in answers; the
//! agent keeps the table of them, and the daemon decides who answers. A second script acts among the page's own only once
//! there is an answer, because only there can it call the page's callback. The agent cannot call into a frame of WebKit.
//! There the script asks for its orders by messages that the browser answers, and the second one is in place from the
//! start and waits for an event whose name no page can guess.
//!
//! *Ads.* Brave's engine decides here, so that blocking survives a restart of the daemon, which compiles the lists once and
//! sends the result with each launch that asks for it. For EasyList alone, Chromium uses the filter that it has for itself
//! (`chromium/ad_filter.rs`), whose rules `worker-image/ad-rules` makes and `worker-image/chromium/index-ad-rules` has
//! Chromium index while the image is built. Interception costs 1.1 ms a request, nearly all of it inside Chromium: a page
//! of 40 requests took 1.48 times as long with it, and takes 1.09 times as long with the filter, of which hiding elements
//! is half. For other lists the agent enables `Fetch` on the browser itself (`chromium/ads.rs`). In Firefox an observer in
//! the parent process holds each channel until the agent has answered, and an actor adds style sheets that pages cannot
//! see. WebKit cannot ask, and compiles rules of its own; the daemon fetches what the first browser has compiled for later
//! ones of the same version.
//!
//! *The log of a session.* Of Chromium the daemon hears by DevTools, and the first page opens when it says that it listens. Firefox has one BiDi session, the client's, so observers in its
//! parent process see requests and errors, and a script in each process of pages hears the console; values are described as the
//! browser sees them, and nothing of a page runs for it. WebKit's inspector tells the same beside a driver (`webkit/log.rs`). All of it is
//! put in place before the first page is opened, and only for a launch that asks.
//!
//! *What browsers keep for sites* is read and written here, because a client may hold the only protocol session. One script does
//! it for all engines (`storage/page.js`), where it can run as an origin without that origin's site: in a hidden tab of Chromium
//! whose request the agent answers, in a sandbox of Firefox's parent process that has the origin's principal, in a view of WebKit
//! without a window, loaded from a text under the origin's address. Cookies have calls of their own in all three, and so has
//! Firefox's local storage. Chromium has no list of the origins that have stored something, so the agent remembers where tabs and
//! frames were. A profile's files could be copied instead; but no other engine reads them, and a running browser's are torn.
//!
//! *A profile folder* (`folder`) is those files all the same, for who needs what no script can read: service workers, and what
//! visitors allowed sites. A launch with one ends the warm browser and starts another like it, at the same ports, with a new
//! profile over which the listed files are unpacked; the agent's own preferences count for more. They are packed once the browser
//! has ended by itself. Chromium's cookies are written by another of its processes, so the agent waits for that one, too. Scripts
//! that a service worker has compiled are compiled again, because machine code is nothing that an archive may bring.
//!
//! *Playwright's own protocol.* A client of `connect` needs Playwright's own server of its very minor version. The image that has them
//! is Chromium's with Node on top, so the worker is warm as before, and the server starts with the client, in a fifth of a second. It
//! can only serve a browser that it has launched. It could attach by `connectOverCDP` and be made to serve that, but by insides that
//! change with each version; so a small program takes the browser's place and hands over its pipe (`chromium/playwright.rs`), which is
//! public interface alone. What a client makes the server do stays in the worker: the server may execute nothing but itself and
//! that program, and its requests leave by the browser's way out.
//!
//! *What was left out.* Playwright on Firefox needs Playwright's own server, Node, and its very version beside the browser;
//! with stock Firefox, newer versions need a layer that pretends that some emulations worked. Contexts and trusted input on
//! WebKit need Playwright's patched build. Neither would be honest or robust, so Warmpool has neither.

mod ads;
mod agent;
mod archive;
mod attach;
mod body;
mod captchas;
mod cdp;
mod chromium;
mod clipboard;
mod display;
mod domain;
mod egress;
mod engine;
mod error;
mod execution;
mod extensions;
mod files;
mod firefox;
mod folder;
mod freeze;
mod handover;
mod lines;
mod listener;
mod log;
mod oom;
mod own_network;
mod pages;
mod percent;
mod plain_file;
mod ports;
mod probe;
mod process;
mod profile_folders;
mod program;
mod recording;
mod server;
mod shim;
mod socks;
mod status;
mod storage;
mod tunnel;
mod upstream;
mod wanted;
mod webkit;
mod window_manager;
mod worker;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use agent::Agent;
use egress::Egress;
use listener::Listener;
use own_network::NetworkError;
use process::Processes;

/// How long an agent waits for a daemon to claim it.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the agent cannot run.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("no domain of Landlock can be entered: {0}")]
    Domain(#[from] landlock::RulesetError),
}

fn main() -> ExitCode {
    if let Some(code) = shim::run_if_asked() {
        return code;
    }
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        .compact()
        .init();
    match run() {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "the agent cannot run");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, AgentError> {
    // No page's memory is dumped to the host, also where whoever starts the container cannot ask for that. Every process here
    // inherits the limit.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(io::Error::from)?;
    // Before there is a second thread, which would stay outside.
    if !domain::confine_agent()? {
        tracing::warn!("this kernel has no Landlock: the image alone says which programs may be executed");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        Listener::bind()?
    };
    runtime.block_on(own_network::enter(&listener))?;
    // A process of the same user, such as a browser somebody broke out of, must not read the
    // secret from our memory.
    prctl::set_dumpable(false).map_err(io::Error::from)?;
    Ok(runtime.block_on(serve(listener))?)
}

async fn serve(listener: Listener) -> io::Result<ExitCode> {
    let processes = Processes::default();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut children = signal(SignalKind::child())?;
    let reaped = processes.clone();
    tokio::spawn(async move {
        while children.recv().await.is_some() {
            reaped.reap();
        }
    });

    ports::prepare()?;
    let egress = Egress::listen().await?;
    let agent = Arc::new(Agent::new(processes.clone(), egress));
    tokio::spawn(server::serve(listener, Arc::clone(&agent)));
    let unclaimed = async {
        sleep(CLAIM_TIMEOUT).await;
        if agent.is_claimed() {
            std::future::pending::<()>().await;
        }
    };
    let code = tokio::select! {
        _ = terminate.recv() => ExitCode::SUCCESS,
        _ = interrupt.recv() => ExitCode::SUCCESS,
        () = agent.run() => ExitCode::SUCCESS,
        () = unclaimed => {
            tracing::warn!("no claim came");
            ExitCode::FAILURE
        }
    };
    processes.kill_all();
    freeze::kill_all();
    Ok(code)
}
