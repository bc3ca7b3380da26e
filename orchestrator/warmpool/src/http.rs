//! The HTTP interface: routes, one file a resource. Nothing else depends on it.
//!
//! `server` accepts connections, as many of one address as `addresses` allows, and `stall` cuts those that do not read;
//! `guard` finds a request's route, refuses what a foreign web page or name could send, and gives each request its id; `cors` tells the pages
//! of sites that the operator allows that they may call, and lets them read what the guard refuses;
//! `query` checks and reads what stands behind the question mark; `peer` knows who sent the request; `auth` finds the caller's key; `body` reads JSON, within the memory that
//! `budget` has for it, and `forwarded_body` streams bodies that the daemon does not read; `forms` reads forms with a file; `answer` counts
//! answers that are in memory as a whole;
//! `credential` is what a request was admitted by, and `revocation` lets no stream and no wait outlast what admitted it; `headers` reads headers, `sse` writes streams of events; `rotation` reads what both kinds of keys take for a new secret; `public_url` builds the URLs in replies; `reply` turns errors
//! into responses; `console` holds the built-in pages and the console's routes; `site` has the other pages for people; `sign_in` lets people into the console.
//!
//! Each of these files lists its routes. Beside its handler a route has an operation, which says in words and types what it
//! is, and whose policy (`route`) decides who may call it, which parameters it takes, which form its errors have, what of
//! its path is secret, whom an operator acts as, and what logs keep. `openapi` makes one document of all operations.
//!
//! `grid`, `browserless`, `playwright`, `json` and `hosted` are the URLs that clients of other services know: `dropin` translates what they
//! ask.
//! `selenoid` has Selenoid's other addresses, `graphql` what a grid tells of itself, `inspect` what Playwright asks for on WebKit, and
//! `request_target` mends targets of WebDriver clients. `pages` has the calls on pages, `functions` and `audits` those with code and those of
//! Lighthouse, `mcp` the endpoint for agents.
//!
//! Sessions are in `create`, `sessions`, `devtools`, `webdriver`, `live`, `shares`, `thumbnail`, `recording`, `logs`, `files` and `state`;
//! tasks in `submit`, `tasks`, `task_reply` and `export`; worlds in `worlds`, `viewer` and `integration`. `profiles`, `extensions` and
//! `webhooks` are what their names say. `health` and `status` are for operators. `app` is what the routes work with, `error` what can go
//! wrong before them; `load` is how busy the host is; `revocation` asks again what admitted a request; `sign_ins` and `attempts` are the
//! console's sign-ins and the failed ones.

mod addresses;
mod answer;
mod app;
mod attempts;
mod audits;
mod auth;
mod body;
mod browserless;
mod budget;
mod console;
mod cors;
mod create;
mod credential;
mod devtools;
pub(crate) mod error;
mod export;
mod extensions;
mod files;
mod forms;
mod forwarded_body;
mod functions;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod graphql;
mod grid;
mod guard;
mod headers;
mod health;
mod hosted;
mod inspect;
mod integration;
mod json;
mod live;
mod load;
mod logs;
mod mcp;
mod openapi;
mod pages;
mod peer;
mod playwright;
mod profiles;
mod public_url;
mod query;
mod recording;
mod reply;
mod request_target;
mod revocation;
mod rotation;
mod route;
mod selenoid;
mod server;
mod sessions;
mod shares;
mod sign_in;
mod sign_ins;
mod site;
mod sse;
mod stall;
mod state;
mod status;
mod submit;
mod task_reply;
mod tasks;
mod thumbnail;
mod viewer;
mod webdriver;
mod webhooks;
mod worlds;

use std::sync::Arc;

use axum::handler::Handler as _;
use axum::{Router, middleware};
use tower_http::compression::CompressionLayer;

pub(crate) use app::{App, Parts};
pub(crate) use budget::{Budget, Purpose};
pub(crate) use console::Console;
pub(crate) use server::Listener;
pub(crate) use server::serve;
pub(crate) use sign_ins::SignIns;

pub(crate) use openapi::Description;
use openapi::{Access, AnyObject, Operation, Routes};
use route::Policy;
use warmpool_config::Config;

/// Notes how the daemon is, now and then, until it stops.
pub(crate) async fn take_samples(app: App) {
    console::take_samples(app).await;
}

/// The policy of the description itself.
const DESCRIPTION: Policy = Policy::rest(Access::Open, &[]).suggested();

/// Every route there is, with its description.
fn routes() -> Routes {
    let sessions =
        thumbnail::routes(logs::routes(state::routes(sessions::routes(create::routes(Routes::new("Sessions"))))));
    let sockets = devtools::routes(Routes::new("Websockets"));
    let driver = webdriver::routes(Routes::new("WebDriver"));
    let live = recording::routes(shares::routes(live::routes(Routes::new("Live view"))));
    let calls = audits::routes(functions::routes(pages::routes(Routes::new("Pages"))));
    let files = files::routes(Routes::new("Files"));
    let tasks = tasks::routes(submit::routes(Routes::new("Tasks")));
    let worlds = integration::routes(worlds::routes(viewer::routes(Routes::new("Worlds"))));
    let operations = health::routes(Routes::new("Operations")).get(
        "/openapi.json",
        openapi::serve.layer(CompressionLayer::new()),
        Operation::new("get_description", "This description", DESCRIPTION).writes::<AnyObject>("OpenAPI 3.1."),
    );
    let pages = site::routes(console::routes(Routes::new("Operations")));
    [
        sockets,
        driver,
        live,
        files,
        calls,
        tasks,
        worlds,
        operations,
        pages,
        profiles::routes(),
        extensions::routes(),
        webhooks::routes(),
        grid::routes(),
        graphql::routes(),
        selenoid::routes(),
        playwright::routes(),
        browserless::routes(),
        json::routes(),
        mcp::routes(),
        hosted::routes(),
    ]
    .into_iter()
    .fold(sessions, Routes::merge)
}

/// The description of the interface in OpenAPI 3.1, as a daemon with these settings serves it at `/openapi.json`.
/// Errors: when it cannot be written as JSON.
pub(crate) fn description(config: &Config) -> serde_json::Result<String> {
    let url = config.server.public_url.as_ref().map_or_else(
        || format!("http://{}", config.server.listen),
        |public| public.as_str().trim_end_matches('/').to_owned(),
    );
    serde_json::to_string_pretty(&describe(config).at(&url))
}

/// Describes the routes of a daemon with these settings.
pub(crate) fn describe(config: &Config) -> Description {
    Description::new(&routes(), config)
}

/// The service.
pub(crate) fn router(app: App) -> Router {
    let routes = routes();
    let table = Arc::new(routes.table());
    let router = routes.into_router().fallback(site::not_found).method_not_allowed_fallback(reply::method_not_allowed);
    let router = cors::readable(router, &app.config);
    router.layer(middleware::from_fn_with_state((app.clone(), table), guard::guard)).with_state(app)
}
