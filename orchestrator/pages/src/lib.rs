//! Calls on pages: one request, one fresh browser, one answer. The addresses and shapes are those of browserless's REST,
//! whose clients need no browser of their own: a screenshot, a PDF, a page's HTML, the text of its elements, or what it says.
//!
//! | module     | what it holds |
//! |------------|---------------|
//! | `call`     | a checked call, and its session |
//! | `answer`   | what a call answers |
//! | `request`  | what bodies may say; no I/O |
//! | `perform`  | the steps of a call, in their order |
//! | `code`     | calls that bring code of their own, and the page in which that runs |
//! | `audit`    | calls that audit a page by Lighthouse, which runs in such a page, too |
//! | `tab`      | the tab in which they happen, whatever protocol its browser speaks |
//! | `chromium` | a tab of Chromium, over DevTools |
//! | `driver`   | a tab of Firefox or WebKit, over the session's driver |
//! | `read`     | `POST /read`: what a page says, and what its site says of readers |
//! | `response` | what the site answered, as headers |
//! | `error`    | what can go wrong with a call |
//!
//! `call` uses `answer`, `audit`, `code` and `perform`, that `tab`, and that `chromium` and `driver`; all use `request` and `error`. The crate stands beside
//! `warmpool-tasks` and above `warmpool-sessions`: it makes sessions as clients do, and knows neither tasks nor routes. What
//! calls and tasks share lies below both: sessions, the forwarder to drivers (`warmpool_sessions::webdriver`), and the daemon's own DevTools connection
//! (`warmpool_sessions::cdp`). The rest they do not share. A task replays what a person recorded, with trusted input and on
//! every engine, by WebDriver. A call opens one page with Puppeteer's options, of which many exist in DevTools alone:
//! requests that are held back, a printed document as a stream, headers and a password for every request.
//!
//! # Decisions
//!
//! - *A call's session is unconfirmed until its answer is there*, or as long as a document is read. So whoever leaves
//!   meanwhile ends it, by the same value that ends the session of a client that did not wait for its create call.
//! - *Whatever waits, the daemon asks again and again* rather than the page: a page that leaves in the middle takes its
//!   promises along.
//! - *The daemon's functions run in a world of their own* (`page.js`), so a page that has changed `JSON` or
//!   `Array.prototype` breaks no answer. The client's functions run among the page's own scripts, as clients expect.
//! - *Requests stop at the daemon by the browser's own attachment*, not the tab's, so those of frames and workers in other
//!   processes stop as well.
//! - *A password goes to the page's own host alone*, once for each request. A page may name any other site.
//! - *Data of a page is read by the language of tasks*, which this crate does not know: whoever makes a call brings it
//!   along ([`Extract`]). What a page says is found by `warmpool-reading`.
//! - *`robots.txt` is opened by the call's own browser*, so it comes by the same way, and under the same policy, as the page.
//! - *Expressions are those of the crate `regex`*: linear in time, whatever a client sends, and without look-around.
//! - *Code of a caller's reaches its own browser by a binding*, and by no websocket: the daemon carries its messages, as those of
//!   any client. A websocket would need an address of the daemon's that pages can reach, and a token that they could read. The
//!   binding is in one script context alone, so pages that the code opens or leads to do not have it.
//! - *Lighthouse runs in the browser that it audits*, in a page beside the audited one, by the same binding as a caller's code. Its bundle for
//!   browsers needs no Node, and so no larger image, no other image for calls of one kind, and nothing to start before it; it works on every
//!   runtime, and a worker has no program that a page could look for. What slows a page down concerns that page's own target, and the
//!   other page belongs to another site, whose process is its own. The daemon has the bundle compressed, and the browser unpacks it.
//! - *An audit's configuration is data.* Lighthouse finds code by the paths that a configuration names; so the settings that can be given are
//!   a list, and what names code is refused. A result that has found nothing out is an error, as a page that does not open is elsewhere.
//! - *Windows that a caller's code opens itself go on by the daemon's word*: Puppeteer would have to say it, and runs where they are waited for.
//! - *A document is never in the daemon's memory*: it stays in the browser, and is read as the client takes it. Everything
//!   else has the limit `pages.max_answer`.

mod answer;
mod audit;
mod call;
mod chromium;
mod code;
mod driver;
mod error;
mod perform;
mod read;
mod request;
mod response;
mod tab;

pub use answer::{Answer, AnswerBody, Pieces};
pub use audit::AuditCall;
pub use call::{Call, PageCall, Pages};
pub use code::{CodeCall, Script};
pub use error::Error;
pub use read::{Extract, ReadAnswer};
pub use request::{CodeBody, ContentBody, PdfBody, PerformanceBody, ReadBody, ScrapeBody, ScreenshotBody};
pub use response::PageResponse;
