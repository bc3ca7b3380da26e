//! One client's use of one worker: its creation and end, what passes between client and browser, its picture and its
//! recordings.
//!
//! | module        | what it holds |
//! |---------------|---------------|
//! | [`session`]   | sessions, from their creation to their end, and their records |
//! | [`relay`]     | websockets between a client and a browser: DevTools, BiDi, and WebKit's inspector |
//! | [`webdriver`] | WebDriver commands between a client and a driver |
//! | [`live`]      | the live view: people watch a session and take control of it |
//! | [`video`]     | recordings of sessions |
//! | [`logs`]      | what happened in sessions that ask for it: console, page errors, requests, downloads |
//! | [`cdp`]       | a DevTools connection of the daemon's own, for the live view, logs and calls on pages |
//! | `net_errors`  | the network's errors by their names, in what Chromium and its driver say |
//! | [`targets`]   | the pages of browsers, as debugging ports list them |
//! | `zipped`      | files of a session as a zip |
//! | `error`       | what can go wrong with sessions |
//!
//! `relay`, `webdriver`, `live` and `targets` use `session`, which knows none of them; it begins a session's `logs`; `video` takes the pictures of a
//! headless browser from `live`, which does not know of recordings. The crate may use `warmpool-workers`, what that stands
//! on, `warmpool-profiles`, `-webhooks` and `-store`. It knows neither tasks nor worlds.
//!
//! # Sessions
//!
//! One table holds all sessions. A live one has a supervisor (`session::supervise`), which waits for the first reason to
//! end: a request, the hard cap, idleness, a client that did not come back, the loss of the worker. The first reason
//! holds. Then each of these happens once, in this order: sockets get their Close frame, the record is written, the lease
//! is dropped. The table keeps records too, up to `session.keep_records`, so a list reads no disk and looks at all of
//! them. A longer history would need an index, as tasks have one.
//!
//! - *The create call answers `running`.* A worker is leased and its settings hold before the call returns, so no client
//!   polls for a session that is starting. A client that leaves while its session is made never confirms it, and an
//!   unconfirmed session ends.
//! - *What a Close means depends on who sends it.* Puppeteer's `disconnect` means "I will be back", so the session waits
//!   `session.reconnect_window`; Puppeteer's `close` ends the browser, which the agent sees. Playwright has no
//!   `disconnect`, so a clean Close of a Playwright client is its `browser.close()` and completes the session.
//!   `keep_alive` turns both off.
//! - *Whoever opens a session by a websocket alone has no URL to come back to*, so it is one connection and ends with it.
//!   One with a name is found again by its key and name (`session::names`). Callers with the same name take turns until
//!   the session is made or joined, so that two at once share one.
//! - *A grid's clients know a session by an id* that is derived from the instance's secret (`session::grid_ids`), since
//!   drivers do not promise that their ids are secret. The id opens the session without the key, which some clients send
//!   with their first request only. The driver's own id stays inside.
//! - *After `kill -9`*, `session::recover` reads the records without an end, the pool adopts the labelled containers that
//!   still run, and the sessions go on under the same URLs with the time they had left. One whose agent has not answered
//!   yet is `unknown`.
//! - *Tokens and links are derived, not stored*: an HMAC of the session's or link's id under the instance's secret. The
//!   record holds the ids of links, so links survive a restart, and end by request, by time, or with the session.
//!
//! # The relay
//!
//! The client's handshake goes to the browser as the client sent it, so the two ends agree on key, extensions and
//! subprotocol between themselves. Afterwards the relay forwards bytes. It reads frame headers and counts payloads, which
//! is enough for a message limit and an orderly Close between two frames. With Chromium it also looks at text messages of up to
//! 64 KiB (`relay::reading`), which its handshake therefore keeps uncompressed. It reassembles and queues nothing, and
//! a slow reader slows its sender. That is why it uses no websocket library: a library would take frames apart to put
//! them together again. When the browser hangs up first, the relay waits a moment for the supervisor's verdict, to
//! distinguish a crash from a close.
//!
//! # WebDriver
//!
//! Bodies of requests and answers stream through unchanged, but for three commands and the names of network errors. Of their heads
//! only what the standard needs passes, either way.
//!
//! - *A new session* passes `webdriver::capabilities`, which is pure. It takes out what the warm browser fulfils, has the
//!   agent start another browser in the same container for what needs one, and refuses by name what would reach around
//!   the container. What a client may set stands in tables of the crate `warmpool-protocol`. What they do not have is left
//!   out, with a warning that names the operator's setting for it. The agent judges by the same tables again. A driver makes its
//!   session whether or not the client stays, and only that client would know its id: without it the Warmpool session ends.
//! - *Quitting* ends the session without asking the driver, since its container goes. By the standard, so does the close
//!   that leaves no window. The worker stays until that answer has gone out, although its browser may have ended first.
//! - *Selenium's file upload* is answered by the agent, because drivers do not serve it.
//!
//! # The live view
//!
//! One websocket for each viewer carries everything: JSON in text messages (`live/message.rs` and
//! `console/src/protocol.ts` are its two sides), pictures in binary ones. The page decides nothing: for each message the
//! daemon decides who may act, who has control, and what a link allows. One viewer at a time has control, and loses it
//! with their connection. While they have it, the session counts as attached. If they pause the client, `session::gate`
//! is shut: the relay and the forwarder hold what they have read until it opens.
//!
//! - *Nothing queues.* On a display, each viewer has a connection of their own through the agent to the X server, which
//!   knows how much each of them takes. Viewers of a tab of a headless Chromium share one picture, in one place where the
//!   next one replaces it. The daemon asks for the next picture when somebody has taken the last, and each viewer reports
//!   when a picture is on their screen. So a slow viewer slows nobody.
//! - *As many pixels as the largest screen has.* Viewers report how large they show the picture, and `live::room` asks
//!   Chromium for that size, between two bounds. Pictures are never finer than the page's own pixels: that would take
//!   another device pixel ratio, which pages can see.
//! - *Two ways to one browser.* Titles, addresses, history and tabs come from DevTools where an engine has it
//!   (`live::devtools`). In Firefox and WebKit the client holds the only protocol session, so the agent asks the browser
//!   from inside, and reports a list at each change (`GET /pages`) for as long as a viewer is there. The two become one
//!   in `live::browser`, and `session::address` decides before either which addresses a viewer may open. On a display
//!   everybody sees the tab in front, so only the viewer with control may choose another.
//! - *Headless Firefox and WebKit have a display* all the same: no other channel shows them without taking the client's
//!   one session.
//! - *Keys that a layout lacks.* Chromium reads its keyboard's layout only once, so letters that the layout lacks go to
//!   the page as text by DevTools, after the keys before them. A display's layout has room for some twenty letters beyond
//!   ASCII. Firefox and WebKit get the letters of Latin keyboards as keys, and all others through the clipboard, one text
//!   at a time; the page holds keys back until the browser has fetched it. However viewers leave, the daemon releases the
//!   keys and buttons that they hold down.
//! - *Anyone holding a `livestream_url` has control* with `enable_actions=true`, as the contract of that URL has it. A
//!   link lets somebody only watch. Any page may frame a live view: its address is its key, and other people's pages are
//!   its purpose.
//! - *A DevTools client of its own.* The agent has one too, because they treat events in opposite ways: the agent's
//!   handles each event before it passes on any later reply. The daemon's (`cdp`) queues them for viewers, and drops
//!   a viewer's target that does not keep up.
//! - *Small pictures for lists* (`live::thumbnail`) keep a screencast, or a connection to the display, open for as long as
//!   somebody asks for them. The browser scales a screencast itself; a display is read as raw pixels once something has
//!   changed, and scaled here.
//!
//! # Recordings
//!
//! A recording of a display is made in the worker: the agent takes pixels over RFB when they change and passes them to
//! `vpxenc`, and the daemon puts the stream into WebM (`video::matroska`). A headless Chromium is recorded as JPEG
//! pictures in Matroska. A file is whole at every moment, and gets its duration and index at the end. If the daemon is
//! killed, the next one adds them, and records what follows as a further part.

pub mod cdp;
mod error;
pub mod live;
pub mod logs;
mod net_errors;
pub mod relay;
pub mod session;
pub mod targets;
pub mod video;
pub mod webdriver;
mod zipped;

pub use error::Error;
pub use zipped::zipped_files;
