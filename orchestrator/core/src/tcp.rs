//! Keep-alive probes and timeouts of TCP connections. A machine that lost its power or its network closes nothing, and without
//! probes the kernel waits for it for ever.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Unanswered probes after which a connection is closed.
const PROBES: u32 = 3;

/// When the kernel drops a silent connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpTimeouts {
    /// Idle time before keep-alive probes start.
    pub keepalive: Duration,
    /// Time that sent data or a probe may stay unacknowledged (`TCP_USER_TIMEOUT`). The kernel also counts the time in which a
    /// living peer does not read, so a write timeout must be shorter to come first.
    pub user_timeout: Option<Duration>,
}

impl TcpTimeouts {
    /// The timeouts towards workers, which are a bridge away. There is no user timeout: a browser may stop reading for a while,
    /// in a debugger for instance. The container runtime's events tell when a worker is gone.
    pub const WORKER: Self = Self { keepalive: Duration::from_secs(15), user_timeout: None };

    /// Interval between probes.
    pub fn interval(self) -> Duration {
        (self.keepalive / PROBES).max(Duration::from_secs(1))
    }

    /// Sets the timeouts of one connection.
    /// Errors: when the kernel refuses, as for anything but a TCP connection.
    pub fn apply(self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        let keepalive =
            TcpKeepalive::new().with_time(self.keepalive).with_interval(self.interval()).with_retries(PROBES);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(self.user_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn keepalive_is_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (_client, (stream, _)) = (client.unwrap(), accepted.unwrap());
        let timeout = Some(Duration::from_millis(12_500));
        let timeouts = TcpTimeouts { keepalive: Duration::from_secs(12), user_timeout: timeout };
        timeouts.apply(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(12));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(4));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
        assert_eq!(socket.tcp_user_timeout().unwrap(), timeout);
    }
}
