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
    /// Tasks: runs, extracts and fleets, and their history.
    tasks: Tasks {
        /// Workers that tasks may use at once; the others are left to clients.
        workers: usize = Computed(default::task_workers, "half of pool.max_workers, at least 1", "4"), min "1";
        /// Tasks that may wait for their turn; more are refused.
        queue_length: usize = Is("1000"), min "1";
        /// Time for one run, extract or item of a fleet that asks for no `timeout`.
        timeout: Duration = Is("5m"), min "1s";
        /// The longest `timeout` a client may ask for.
        max_timeout: Duration = Is("1h"), min "1s";
        /// Time for a step that names none of its own.
        step_timeout: Duration = Is("5s"), min "100ms";
        /// Time for a page to load, for a step that names none of its own.
        navigation_timeout: Duration = Is("30s"), min "100ms";
        /// The longest time a request may wait for its task to end.
        max_wait: Duration = Is("10m"), min "1s";
        /// Time that the cancelling of a task waits for its end to be written; then the answer is that it is still stopping.
        cancel_timeout: Duration = Is("10s"), min "100ms";
        /// Size of the body of a task.
        max_body: ByteSize = Is("8MiB"), min "1KiB";
        /// Items of a fleet that one session carries out, each in a browser context of its own; 1 gives each a container.
        items_per_session: usize = Is("100"), min "1";
        /// Items of one fleet.
        max_items: usize = Is("10000"), min "1";
        /// Size of the output of one run, extract or item, as JSON.
        max_output: ByteSize = Is("4MiB"), min "1KiB";
        /// Screenshots, documents and downloads of one run, extract or item.
        max_artifacts: usize = Is("50");
        /// Size of all of them together.
        max_artifact_size: ByteSize = Is("64MiB");
        /// Tasks kept in the history; the oldest are forgotten first.
        keep: usize = Is("1000000"), min "1";
        /// Time a task is kept in the history.
        keep_for: Duration = Is("30d"), min "1m";
    }

    /// Worlds: 360-degree scenes for patients.
    world: World {
        /// Image of the renderers, which `scripts/images --scene` makes.
        image: String = Is("warmpool/scene:latest");
        /// Scenes rendered at the same time.
        renderers: usize = Is("1"), min "1";
        /// Whether a renderer waits ready, which saves the first seconds of a scene and takes some hundred MiB.
        warm: bool = Is("false");
        /// Worlds that may wait for their turn; more are refused.
        queue_length: usize = Is("100"), min "1";
        /// Worlds of one integration key that may wait for their turn; 0 sets no limit of its own. Keys take turns.
        max_per_key: usize = Is("50");
        /// Width of a scene, in pixels; it is half as high. A viewer on a large screen shows the difference up to 4096.
        width: u32 = Is("2048"), min "128";
        /// Width of the first picture, which comes within seconds.
        preview_width: u32 = Is("1024"), min "64";
        /// Samples a pixel: more give a finer picture in more time. 0 leaves it to the renderer.
        samples: u32 = Is("0");
        /// Time for one scene.
        render_timeout: Duration = Is("30m"), min "10s";
        /// Memory of a renderer, swap included.
        memory: ByteSize = Is("3GiB"), min "512MiB";
        /// Size of a renderer's temporary directories, each in memory.
        tmp: ByteSize = Is("256MiB"), min "16MiB";
        /// Cores of a renderer; 0 sets no limit. Everything else on the host goes first.
        cpus: f64 = Is("2.0"), min "0";
        /// Processes and threads of a renderer.
        pids: u32 = Is("256"), min "32";
        /// Size of the body of a request, with all its pictures in base64.
        max_body: ByteSize = Is("32MiB"), min "1KiB";
        /// Images of one world.
        max_images: usize = Is("12");
        /// Videos of one world.
        max_videos: usize = Is("4");
        /// Belongings of one world.
        max_belongings: usize = Is("24");
        /// Size of one attachment that is fetched by its URL.
        max_attachment: ByteSize = Is("16MiB"), min "1KiB";
        /// Pixels of one attachment, width times height.
        max_pixels: usize = Is("50000000"), min "1";
        /// Memory in which an attachment is decoded, beside `server.body_memory`; they are decoded one at a time. A picture that
        /// takes more is refused: three bytes a pixel for a usual JPEG, up to nine for others.
        decode_memory: ByteSize = Is("160MiB"), min "1MiB";
        /// Time for an attachment to be fetched.
        fetch_timeout: Duration = Is("20s"), min "1s";
        /// Private networks from which attachments may be fetched; public addresses always may.
        attachment_networks: Vec<IpNet> = Unset("10.20.0.0/16");
        /// The longest time a request may wait for its world.
        max_wait: Duration = Is("10m"), min "1s";
        /// File with the key that encrypts patients' names and ids; else it is taken from WARMPOOL_WORLD_NAMES_KEY. Without
        /// either they are encrypted with a key that lies beside them.
        names_key_file: Option<PathBuf> = Unset("/etc/warmpool/names.key");
        /// Time a world is kept.
        keep_for: Duration = Is("365d"), min "1m";
        /// Time a request stays in the log.
        keep_log_for: Duration = Is("90d"), min "1m";
    }

    /// Ad blocking, for sessions that ask for it.
    ads: Ads {
        /// Files of rules in EasyList's format, read again when they change; `easylist` is the list built into the daemon.
        lists: Vec<String> = Is("easylist");
    }

    /// Solving CAPTCHAs, for sessions that ask for it.
    captcha: Captcha {
        /// Who solves them: off refuses such sessions, person waits for somebody in the live view, solver asks a service.
        mode: CaptchaMode = Is("off");
        /// Challenges of one session that are given to somebody; further ones are left alone.
        max_per_session: usize = Is("20"), min "1";
        /// Time for a person to come and solve one.
        person_timeout: Duration = Is("5m"), min "1s";
        /// Where messages go when a challenge waits for a person, and when it is over.
        webhook_url: Option<Url> = Unset("https://app.example.com/captchas");
        /// File with the secret that signs these messages, as Standard Webhooks has it.
        webhook_secret_file: Option<PathBuf> = Unset("/etc/warmpool/webhook.secret");
        /// Address of the service: its `createTask` and `getTaskResult` stand below it.
        solver_url: Option<Url> = Unset("https://api.2captcha.com");
        /// Whose names of tasks the service understands.
        solver_service: SolverService = Is("2captcha");
        /// File with the key of your account there.
        solver_key_file: Option<PathBuf> = Unset("/etc/warmpool/solver.key");
        /// Time for the service to solve one.
        solver_timeout: Duration = Is("2m"), min "1s";
        /// Time between two questions whether it is solved.
        solver_interval: Duration = Is("3s"), min "100ms";
    }
}
