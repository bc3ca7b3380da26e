//! A swarm for `scripts/bench`, made of the tests' engines: `bench-swarm IMAGE NODES`.
//!
//! It prints where the swarm is, as one line of JSON, and then obeys a line of standard input at a time: `down NAME` pulls a
//! node's plug, `up NAME` puts it in again. Each is answered by a line. The swarm ends with standard input.

use std::io::Write as _;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use warmpool_tests::Swarm;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let image = arguments.next().context("the name of an image")?;
    let count = arguments.next().context("a number of nodes")?.parse()?;
    let Some(swarm) = Swarm::start_many(&image, count).await? else {
        return say(&json!({"skipped": "no namespaces can be made here"}));
    };
    let nodes: Vec<Value> = (1..=count)
        .map(|number| swarm.name(number))
        .map(|name| Ok(json!({"name": name, "engine": swarm.engine(&name)?.host()})))
        .collect::<Result<_>>()?;
    say(&json!({"nodes": nodes, "seat": swarm.seat(), "address": swarm.seat_address()}))?;
    for order in std::io::stdin().lines() {
        say(&match obey(&swarm, &order?) {
            Ok(()) => json!({}),
            Err(problem) => json!({"error": format!("{problem:#}")}),
        })?;
    }
    Ok(())
}

fn obey(swarm: &Swarm, order: &str) -> Result<()> {
    let Some((state, node)) = order.split_once(' ') else { bail!("{order}: no node") };
    ensure!(["up", "down"].contains(&state), "{order}: no such order");
    swarm.plug(node, state)
}

fn say(value: &Value) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
