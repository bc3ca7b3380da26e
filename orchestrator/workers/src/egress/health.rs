//! Checks whether the upstream proxies answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::upstreams::{Upstream, Upstreams};
use warmpool_dial::Lookups;

/// Time for a look-up of an upstream's name, and for it to take a connection.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

impl Upstreams {
    /// Checks every upstream at intervals, until `stop`. The share of look-ups is for nothing else.
    pub async fn check(self, lookups: Lookups, interval: Duration, stop: CancellationToken) {
        if self.0.is_empty() {
            return;
        }
        let checking = async {
            loop {
                for upstream in self.0.iter() {
                    let (host, port) = (&upstream.config.host, upstream.config.port);
                    upstream.set_up(lookups.connect(host, port, CHECK_TIMEOUT).await.is_ok());
                }
                sleep(interval).await;
            }
        };
        stop.run_until_cancelled(checking).await;
    }
}

impl Upstream {
    /// Records whether the upstream answers, and logs a change.
    pub(super) fn set_up(&self, is_up: bool) {
        let name = self.config.table.name.as_str();
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            if is_up {
                tracing::info!(upstream = name, "an upstream proxy answers again");
            } else {
                tracing::warn!(upstream = name, "an upstream proxy does not answer");
            }
        }
        metrics::gauge!("warmpool_egress_upstream_up", "upstream" => name.to_owned()).set(f64::from(u8::from(is_up)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;
    use warmpool_config::upstreams_from;
    use warmpool_dial::{Resolver, ResolverLimits};

    #[tokio::test]
    async fn an_upstream_whose_first_address_never_answers_is_up() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let deaf = socket.listen(1).unwrap();
        let first = deaf.local_addr().unwrap();
        // Its queue is full, and nobody accepts.
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(first)).await {
            waiting.push(stream.unwrap());
        }
        let second = TcpListener::bind(("127.0.0.2", first.port())).await.unwrap();
        let addresses = vec![first.ip(), second.local_addr().unwrap().ip()];
        let (time, ttl) = (CHECK_TIMEOUT, Duration::ZERO);
        let limits = ResolverLimits { at_once: 1, time, max_ttl: ttl, max_negative_ttl: ttl };
        let lookups = Resolver::with(limits, move |_| Some(addresses.clone())).share();
        let tables = format!(r#"[{{ name = "two", url = "http://two.example:{}" }}]"#, first.port());
        let upstreams = Upstreams::new(&upstreams_from(&tables));
        upstreams.0[0].set_up(false);
        let stop = CancellationToken::new();
        let checking = tokio::spawn(upstreams.clone().check(lookups, Duration::from_millis(100), stop.clone()));
        let is_up = async {
            while !upstreams.0[0].is_up.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(60), is_up).await.expect("it is up by its second address");
        stop.cancel();
        checking.await.unwrap();
    }
}
