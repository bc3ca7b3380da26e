//! Tools for agents, by the Model Context Protocol: an MCP session has one browser, which its tools drive step by step.
//!
//! | module     | what it holds |
//! |------------|---------------|
//! | `endpoint` | MCP over HTTP: which MCP session a request is for, and who may reach it |
//! | `manager`  | the MCP sessions, as one key sees them |
//! | `places`   | how many MCP sessions each key has |
//! | `mcp_session` | one MCP session: its browser, its tool calls one after the other, and its end |
//! | `server`   | what clients ask a session: its tools, and calls of them |
//! | `tools`    | the tools: their names, arguments and answers |
//! | `page_log` | what a page wrote and asked for, of what the session's log has |
//! | `error`    | what can go wrong with a request; what goes wrong with a tool is in `tools` |
//!
//! `endpoint` uses `manager` and `server`, both use `mcp_session`, and that `tools` and `page_log`. The crate stands above
//! `warmpool-tasks`: the player of tasks does what tools ask for (`warmpool_tasks::control`). `warmpool-reading` reads what a
//! page says. It makes sessions as clients do, and knows no route.
//!
//! # Decisions
//!
//! - *The protocol is the library's*, `rmcp`, the official SDK: its versions, its transport over HTTP and its types are a
//!   standard that others speak.
//! - *Protocol versions with sessions are spoken*, those up to 2025-11-25. Later ones have none, and a browser is one.
//! - *A manager of MCP sessions belongs to one key.* It finds no session of another, so none has to be kept from one.
//! - *The browser comes with the first tool that needs it*, so a client that only lists tools takes none.
//! - *Its session is unconfirmed for as long as the MCP session lasts*, as that of a call on a page: dropping it ends it.
//! - *A task is a task*: `run_task` sends one as a client of REST does, so it has its own browsers, its place in the queue and in
//!   the history, and goes on when the agent leaves.
//! - *Its session keeps a log*, as any session that asks for one, so every engine tells what its pages wrote and asked for.
//! - *Idleness is the daemon's to see*: neither a stream that stays open nor a browser that stays busy keeps an MCP session,
//!   only requests and running tool calls do.
//! - *Names and arguments of tools are those of Playwright's server*, which models and prompts know. Files are those of the
//!   session and never the daemon's own.

mod endpoint;
mod error;
mod manager;
mod mcp_session;
mod page_log;
mod places;
mod server;
mod tools;

pub use endpoint::{Client, Mcp, McpServices};
pub use error::Error;
