//! The settings of what sessions are used for, and of what only some of them ask for.

use std::{path::PathBuf, time::Duration};

use ipnet::IpNet;
use url::Url;

use super::super::{
    default,
    layers::Layers,
    setting::{DefaultValue, Setting},
    settings::settings,
    units::{ByteSize, CaptchaMode, SolverService},
    value::Value,
};

use DefaultValue::{Computed, Is, Unset};

settings! {
    /// Video recordings of sessions that request one.
    recording: RecordingSettings {
        /// Maximum frame rate of a recording, in frames a second.
        rate: u32 = Is("10"), min "1";
        /// Maximum size of one session's recording.
        max_size: ByteSize = Is("1GiB"), min "1MiB";
        /// Time that recordings are kept.
        keep_for: Duration = Is("7d");
        /// Maximum total size of recordings; the oldest of the key that keeps most are deleted first.
        keep: ByteSize = Is("20GiB");
        /// Disk space that recordings leave free in addition to `store.min_free`. With less, the oldest are deleted, then running
        /// ones stop.
        reserve: ByteSize = Is("1GiB"), min "1MiB";
    }

    /// Logs of sessions that request one: console, page errors, requests, downloads. They are in memory alone.
    logs: LogSettings {
        /// Maximum number of entries of one session's log; the oldest are dropped first.
        max_entries: usize = Is("2000"), min "1";
        /// Maximum size of one session's log; the oldest entries are dropped first.
        max_size: ByteSize = Is("2MiB"), min "1KiB";
        /// Number of logs kept of sessions that have ended; the oldest of the key that has most are dropped first.
        keep_ended: usize = Is("20");
    }

    /// WebDriver commands, forwarded to the browser's driver.
    webdriver: WebDriver {
        /// Maximum size of a new session request's body, including a profile or extensions; 128MiB at most.
        max_session_body: ByteSize = Is("8MiB"), min "4KiB";
        /// Maximum size of a command or upload, which is streamed through.
        max_body: ByteSize = Is("256MiB"), min "64KiB";
        /// Timeout for a command.
        command_timeout: Duration = Is("10m"), min "1s";
        /// Lifetime of a session created at `/session`, where Grid clients name no `session_timeout`.
        grid_timeout: Duration = Is("1h"), min "1s";
        /// Idle time after which a session created at `/session` ends when its client names none.
        grid_idle_timeout: Duration = Is("5m"), min "1s";
        /// Maximum time that a new session at `/session` waits for a worker, instead of `session.queue_wait`. It should be shorter
        /// than the read timeout of the clients, which is 180s for Selenium in Java.
        grid_queue_wait: Duration = Is("170s");
    }

    /// Playwright's own protocol, at `/playwright/chromium`.
    playwright: Playwright {
        /// Minor versions of Playwright whose clients are served. The image that `worker.chromium_image` names has their
        /// servers: `scripts/images --playwright` builds it. Without a version the protocol is not served.
        versions: Vec<String> = Unset("1.65");
    }

    /// Tasks (runs, extracts and fleets) and their history.
    tasks: Tasks {
        /// Maximum number of workers that tasks use; the others are left to clients.
        workers: usize = Computed(default::task_workers, "half of pool.max_workers, at least 1", "4"), min "1";
        /// Maximum number of queued tasks. A full queue refuses those of a key that has its share of it, which is this number divided by
        /// the number of keys that have any; it takes those of other keys.
        queue_length: usize = Is("1000"), min "1";
        /// Timeout for a run, extract or fleet item that requests no `timeout`.
        timeout: Duration = Is("5m"), min "1s";
        /// Maximum `timeout` that a client may request.
        max_timeout: Duration = Is("1h"), min "1s";
        /// Timeout for a step that sets none itself.
        step_timeout: Duration = Is("5s"), min "100ms";
        /// Timeout for a page to load, for a step that sets none itself.
        navigation_timeout: Duration = Is("30s"), min "100ms";
        /// Maximum time that a request may wait for its task to end.
        max_wait: Duration = Is("10m"), min "1s";
        /// Time that a cancellation waits for the task to end; after that the response says that it is still stopping.
        cancel_timeout: Duration = Is("10s"), min "100ms";
        /// Maximum size of a task request's body.
        max_body: ByteSize = Is("8MiB"), min "1KiB";
        /// Number of fleet items that one session runs, each in its own browser context; with 1 each gets its own container.
        items_per_session: usize = Is("100"), min "1";
        /// Maximum number of items of one fleet.
        max_items: usize = Is("10000"), min "1";
        /// Maximum size of the output of one run, extract or item, as JSON.
        max_output: ByteSize = Is("4MiB"), min "1KiB";
        /// Maximum number of screenshots, documents and downloads of one run, extract or item: up to 200.
        max_artifacts: usize = Is("50");
        /// Maximum total size of these artifacts.
        max_artifact_size: ByteSize = Is("64MiB");
        /// Number of tasks kept in the history; the oldest are deleted first.
        keep: usize = Is("1000000"), min "1";
        /// Time that tasks are kept in the history.
        keep_for: Duration = Is("30d"), min "1m";
        /// Maximum total size of what tasks keep: their files, each in whole blocks of 4 KiB, the items of fleets, and orders of
        /// more than 60 KiB. Beyond it the key that keeps most loses its oldest tasks. Those that have not ended stay; where they
        /// leave no room, files are not kept, their tasks fail, and large orders are refused.
        keep_size: ByteSize = Is("20GiB"), min "1MiB";
        /// The same for the tasks of one key, of which its own oldest are deleted.
        keep_size_per_key: ByteSize = Computed(default::keep_size_per_key, "half of keep_size", "10GiB"), min "1KiB";
    }

    /// Calls on pages, such as `/pdf` and `/screenshot`: one request, one fresh browser, one answer.
    pages: Pages {
        /// Timeout for a call that requests no `timeout`, from the moment that it has a browser.
        timeout: Duration = Is("30s"), min "1s";
        /// Maximum size of a call's body, including the HTML in it.
        max_body: ByteSize = Is("8MiB"), min "1KiB";
        /// Maximum size of an answer that is made in memory: a screenshot, a page's HTML, or its elements. PDFs are streamed.
        max_answer: ByteSize = Is("16MiB"), min "1KiB";
        /// Maximum number of elements of a page whose main content is read.
        max_elements: usize = Is("50000"), min "1";
        /// Enables `/function` and `/download`, which run code of the caller's in a browser.
        functions: bool = Is("false");
        /// Time for a download to begin once the code of `/download` has ended.
        download_wait: Duration = Is("5s"), min "0s";
    }

    /// MCP at `/mcp`, whose tools let agents drive browsers.
    mcp: Mcp {
        /// Maximum number of MCP sessions of one key. Each has one browser, once a tool needs it.
        max_sessions_per_key: usize = Is("16"), min "1";
        /// Time after which an MCP session ends that gets no request and carries out no tool; its browser ends with it.
        idle_timeout: Duration = Is("10m"), min "1s";
        /// Timeout for an action on a page.
        action_timeout: Duration = Is("5s"), min "100ms";
        /// Timeout for a page to open, and for what a tool waits for.
        navigation_timeout: Duration = Is("30s"), min "100ms";
        /// Maximum size of a request's body.
        max_body: ByteSize = Is("4MiB"), min "1KiB";
        /// Maximum size of a tool's answer, and of a page that is read.
        max_answer: ByteSize = Is("4MiB"), min "1KiB";
        /// Maximum number of elements in a snapshot; the rest is left out.
        max_elements: usize = Is("2000"), min "1";
        /// Maximum number of console messages, or of requests, that a tool lists: the latest ones.
        max_log: usize = Is("1000"), min "1";
    }

    /// Webhooks: messages about ended sessions, ended tasks, and CAPTCHAs that wait for a person.
    webhooks: Webhooks {
        /// URL that hears of the sessions and tasks of all keys, in addition to the `webhook_url` of each; no policy judges it.
        url: Option<Url> = Unset("https://app.example.com/hooks");
        /// File with the secret that signs messages to `url` according to Standard Webhooks. Clients' own are at `GET /webhooks/secret`.
        secret_file: Option<PathBuf> = Unset("/etc/warmpool/webhook.secret");
        /// Private networks that a client's `webhook_url` may lead to; public addresses are allowed unless `egress.deny` names them.
        networks: Vec<IpNet> = Unset("10.20.0.0/16");
        /// Timeout for a receiver to take a message.
        timeout: Duration = Is("10s"), min "100ms";
        /// Pause before a message is sent again; each further pause is twice as long, up to an hour.
        retry_delay: Duration = Is("5s"), min "100ms";
        /// Time after which a message is given up that nobody takes.
        keep_trying: Duration = Is("1d"), min "1s";
        /// Maximum number of messages of one key, or of `url`, that wait; further ones are dropped.
        queue_length: usize = Is("1000"), min "1";
    }

    /// Profiles, which keep logins from one session to the next.
    profiles: ProfileSettings {
        /// Maximum number of profiles of one key.
        max_per_key: usize = Is("100"), min "1";
        /// Maximum total size of one key's profiles, with all their versions. Older versions of a profile give way to its next save.
        max_total: ByteSize = Is("4GiB"), min "64KiB";
        /// Maximum size of a profile as JSON, 128MiB at most.
        max_size: ByteSize = Is("8MiB"), min "64KiB";
        /// Maximum size of the files of a profile that is a browser's folder.
        max_folder: ByteSize = Is("256MiB"), min "16MiB";
        /// Maximum number of folders that clients send at once; more wait. Each occupies a thread while it arrives.
        max_imports: usize = Is("16"), min "1";
        /// Maximum number of folders that clients of one key send at once; more wait.
        max_imports_per_key: usize = Is("2"), min "1";
        /// Timeout for a folder that a client sends to arrive, with the time that it waits for others. A pause within it has its
        /// own, `server.body_timeout`.
        import_timeout: Duration = Is("10m"), min "1s";
        /// Number of versions of a profile kept, 100 at most; a version is what one session saved.
        keep_versions: usize = Is("5"), min "1";
        /// Time after which a profile that no session has used is deleted for good; never when unset.
        keep_for: Option<Duration> = Unset("90d"), min "1h";
        /// Interval between saves of a profile while a session writes it. The last save is at the session's end.
        save_interval: Duration = Is("1m"), min "1s";
        /// Time that the end of a session waits for the last save of its profile.
        save_timeout: Duration = Is("20s"), min "1s";
    }

    /// Browser extensions that clients upload for their sessions.
    extensions: ExtensionSettings {
        /// Maximum number of extensions of one key.
        max_per_key: usize = Is("20"), min "1";
        /// Maximum total size of one key's extensions, as they were uploaded.
        max_total: ByteSize = Is("256MiB"), min "1KiB";
        /// Maximum size of an upload.
        max_size: ByteSize = Is("16MiB"), min "1KiB";
        /// Maximum size of an extension's files, unpacked; a worker keeps them in memory.
        max_unpacked: ByteSize = Is("128MiB"), min "1KiB";
        /// Maximum number of files and folders of an extension.
        max_files: usize = Is("5000"), min "1";
        /// Maximum number of extensions of one session.
        max_per_session: usize = Is("8"), min "1";
    }

    /// Worlds, which are 360-degree scenes for patients.
    world: World {
        /// Image of renderers, built by `scripts/images --scene`.
        image: String = Is("warmpool/scene:latest");
        /// Maximum number of scenes rendered at the same time.
        renderers: usize = Is("1"), min "1";
        /// Whether a renderer is kept warm, which saves the first seconds of a scene and takes some hundred MiB.
        warm: bool = Is("false");
        /// Maximum number of queued worlds; more are refused.
        queue_length: usize = Is("100"), min "1";
        /// Maximum number of queued worlds of one service key, by all of its integration keys; 0 sets no separate limit. Keys
        /// take turns.
        max_per_key: usize = Is("50");
        /// Maximum total size of the worlds of one service key, by all of its integration keys. A world counts with its files and
        /// 64 KiB beside them.
        max_total: ByteSize = Is("20GiB"), min "1MiB";
        /// Maximum number of patients of one service key, by all of its integration keys.
        max_patients: usize = Is("50000"), min "1";
        /// Maximum number of integration keys of one service key, including revoked ones, whose worlds stay.
        max_keys: usize = Is("1000"), min "1";
        /// Width of a scene, in pixels; its height is half of that. A screen 1440 pixels wide shows a quarter of it at a time.
        width: u32 = Is("4096"), min "128";
        /// Width of the preview, in pixels, which is ready long before the scene.
        preview_width: u32 = Is("1024"), min "64";
        /// Samples per pixel: more take longer and give a finer picture. With 0 the renderer decides.
        samples: u32 = Is("0");
        /// Timeout for rendering one scene.
        render_timeout: Duration = Is("30m"), min "10s";
        /// Memory limit of a renderer, including swap.
        memory: ByteSize = Is("3GiB"), min "512MiB";
        /// Size of each of a renderer's temporary directories, which are kept in memory.
        tmp: ByteSize = Is("256MiB"), min "16MiB";
        /// CPU limit of a renderer, in cores; 0 sets no limit. Everything else on the host takes priority.
        cpus: f64 = Is("2.0"), min "0";
        /// Maximum number of processes and threads of a renderer.
        pids: u32 = Is("256"), min "32";
        /// Maximum size of a world request's body, including its images in base64.
        max_body: ByteSize = Is("32MiB"), min "1KiB";
        /// Maximum number of images of one world.
        max_images: usize = Is("12");
        /// Maximum number of videos of one world.
        max_videos: usize = Is("4");
        /// Maximum number of belongings of one world.
        max_belongings: usize = Is("24");
        /// Maximum size of an attachment fetched by its URL.
        max_attachment: ByteSize = Is("16MiB"), min "1KiB";
        /// Maximum number of pixels of an attachment, width times height.
        max_pixels: usize = Is("50000000"), min "1";
        /// Memory for decoding an attachment, in addition to `server.body_memory`; one is decoded at a time. An image that needs
        /// more is refused: a typical JPEG needs three bytes a pixel, others up to nine.
        decode_memory: ByteSize = Is("160MiB"), min "1MiB";
        /// Timeout for fetching an attachment.
        fetch_timeout: Duration = Is("20s"), min "1s";
        /// Private networks from which attachments may be fetched; public addresses are always allowed.
        attachment_networks: Vec<IpNet> = Unset("10.20.0.0/16");
        /// Maximum time that a request may wait for its world.
        max_wait: Duration = Is("10m"), min "1s";
        /// File with the key that encrypts patients' names and ids; the environment variable WARMPOOL_WORLD_NAMES_KEY can hold it
        /// instead. Without either, the key is derived from a secret in the data directory.
        names_key_file: Option<PathBuf> = Unset("/etc/warmpool/names.key");
        /// Time that worlds are kept.
        keep_for: Duration = Is("365d"), min "1m";
        /// Time that requests are kept in the log.
        keep_log_for: Duration = Is("90d"), min "1m";
        /// Number of requests of one service key's integrations kept in the log; the oldest are deleted first.
        keep_log: usize = Is("100000"), min "1";
        /// Maximum number of requests without a valid integration key in the log; the oldest go first. They are kept in memory.
        keep_unproven: usize = Is("1000");
    }

    /// Ad blocking, for sessions that request it.
    ads: Ads {
        /// Filter lists in EasyList's format, reloaded when they change; `easylist` is the list built into the daemon.
        lists: Vec<String> = Is("easylist");
    }

    /// Solving CAPTCHAs, for sessions that request it.
    captcha: CaptchaSettings {
        /// Who solves CAPTCHAs: off refuses such sessions, person waits for somebody in the live view, solver uses a service.
        mode: CaptchaMode = Is("off");
        /// Maximum number of CAPTCHAs solved for one session; further ones are ignored.
        max_per_session: usize = Is("20"), min "1";
        /// Timeout for a person to solve a CAPTCHA.
        person_timeout: Duration = Is("5m"), min "1s";
        /// URL of the webhook that is called when a CAPTCHA waits for a person, and when that ends.
        webhook_url: Option<Url> = Unset("https://app.example.com/captchas");
        /// File with the secret that signs webhook messages according to Standard Webhooks.
        webhook_secret_file: Option<PathBuf> = Unset("/etc/warmpool/webhook.secret");
        /// Base URL of the solver service, below which are `createTask` and `getTaskResult`.
        solver_url: Option<Url> = Unset("https://api.2captcha.com");
        /// API dialect of the solver service.
        solver_service: SolverService = Is("2captcha");
        /// File with the API key of your account at the solver service.
        solver_key_file: Option<PathBuf> = Unset("/etc/warmpool/solver.key");
        /// Timeout for the solver service to solve a CAPTCHA.
        solver_timeout: Duration = Is("2m"), min "1s";
        /// Interval between polls for the solution.
        solver_interval: Duration = Is("3s"), min "100ms";
    }
}
