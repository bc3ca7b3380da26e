//! `warmpool tunnel`: one session as a debugging port of this machine, for tools that know only a host and a port.
//!
//! `session` makes the session and holds it by a DevTools connection of its own; `port` answers the tools.

mod port;
mod session;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::Service;
use super::error::ClientError;
use super::http::Caller;
use super::output::{note, write};
use super::show::control_free;
use crate::exit::Exit;
use session::Session;

/// A debugging port to serve.
#[derive(Debug, Clone, Args)]
pub struct TunnelArguments {
    /// The port to listen on, at 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 9222)]
    pub port: u16,
    /// The first page.
    #[arg(long, value_name = "URL", default_value = "about:blank")]
    pub page: String,
    /// Give the browser a display.
    #[arg(long)]
    pub headed: bool,
    /// How long the session may last; the daemon's default otherwise.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub session_timeout: Option<Duration>,
    /// Where the daemon is.
    #[command(flatten)]
    pub service: Service,
}

pub(super) async fn carry_out(arguments: TunnelArguments) -> Result<Exit, ClientError> {
    let caller = Arc::new(Caller::new(&arguments.service)?);
    let unbound = |error| ClientError::Usage(format!("cannot listen on 127.0.0.1:{}: {error}", arguments.port));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await.map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    let unhandled = |error| ClientError::Usage(format!("cannot wait for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unhandled)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unhandled)?;
    let (session, holder) = Session::open(caller, &arguments).await?;
    let session = Arc::new(session);
    // Programs that start the tunnel on port 0 read this line.
    write(&format!("listening on http://{address}"));
    note(format_args!("session {}: anybody on this machine may drive it until Ctrl-C or its end", session.id));
    tokio::select! {
        reason = holder.run() => note(format_args!("the session has ended: {}", control_free(&reason))),
        () = port::serve(&listener, &session) => {}
        _ = interrupt.recv() => session.end().await,
        _ = terminate.recv() => session.end().await,
    }
    Ok(Exit::Success)
}
