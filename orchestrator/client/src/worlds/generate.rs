//! `warmpool worlds generate`: asks for a world and follows it.

use std::path::{Path, PathBuf};

use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use warmpool_api::world::{Environment, Status, World};

use super::{Integration, path};
use crate::arguments::{Service, put};
use crate::error::ClientError;
use crate::events::{Events, RESUME_EVERY};
use crate::exit::Exit;
use crate::http::{Caller, broken};
use crate::naming::{SentFile, SetBy, given};
use crate::output::{print, tell};
use crate::show::{Progress, plain};
use crate::submit::read;
use crate::values;

/// The world that is wanted.
#[derive(Debug, Clone, Args)]
pub struct GenerateArguments {
    /// File with a request to POST /v1/world/generate, for what has no option here; - reads standard input.
    file: Option<PathBuf>,
    /// The kind of scene.
    #[arg(long, value_name = "ENVIRONMENT", value_parser = values::environment(), required_unless_present = "file")]
    environment: Option<Environment>,
    /// The patient's id.
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    patient_id: Option<String>,
    /// The patient's name.
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    patient_name: Option<String>,
    /// A picture with its label: a file of this machine or an address; may be repeated.
    #[arg(long = "image", value_name = "LABEL=FILE or LABEL=URL")]
    images: Vec<String>,
    /// A belonging, such as radio; may be repeated.
    #[arg(long = "belonging", value_name = "LABEL")]
    belongings: Vec<String>,
    /// Another one makes another scene of the same content.
    #[arg(long, value_name = "TEXT")]
    variation: Option<String>,
    /// Print the accepted world and leave it.
    #[arg(long)]
    detach: bool,
    /// Print JSON on a terminal, too.
    #[arg(long)]
    json: bool,
    /// Who asks.
    #[command(flatten)]
    integration: Integration,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

impl GenerateArguments {
    /// The options that were given, by the fields that they set.
    fn given(&self) -> Vec<SetBy> {
        given([
            (self.environment.is_some(), "environment_type", "--environment"),
            (self.patient_id.is_some(), "patient_id", "--patient-id"),
            (self.patient_name.is_some(), "patient_name", "--patient-name"),
            (self.variation.is_some(), "variation", "--variation"),
            (!self.images.is_empty(), "images", "--image"),
            (!self.belongings.is_empty(), "belongings", "--belonging"),
        ])
    }

    /// The request: that of the file, with the options of the command line.
    fn body(&self) -> Result<Map<String, Value>, ClientError> {
        let mut body = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        put(
            &mut body,
            json!({
                "environment_type": self.environment,
                "patient_id": self.patient_id,
                "patient_name": self.patient_name,
                "variation": self.variation,
            }),
        );
        let images = self.images.iter().map(|image| attachment(image)).collect::<Result<Vec<_>, _>>()?;
        let belongings = self.belongings.iter().map(|label| json!({"label": label})).collect();
        for (member, items) in [("images", images), ("belongings", belongings)] {
            if items.is_empty() {
                continue;
            }
            match body.entry(member).or_insert_with(|| json!([])) {
                Value::Array(all) => all.extend(items),
                _ => return Err(ClientError::Usage(format!("`{member}` of the file is not a list"))),
            }
        }
        Ok(body)
    }
}

/// A picture by its label and where it is.
fn attachment(text: &str) -> Result<Value, ClientError> {
    let wrong = || ClientError::Usage(format!("--image {text}: write it as LABEL=FILE or LABEL=URL"));
    let (label, source) = text.split_once('=').ok_or_else(wrong)?;
    if source.starts_with("http://") || source.starts_with("https://") {
        return Ok(json!({"label": label, "url": source}));
    }
    let picture = std::fs::read(Path::new(source))
        .map_err(|error| ClientError::Usage(format!("--image {label}: cannot read {source}: {error}")))?;
    Ok(json!({"label": label, "data": STANDARD.encode(picture)}))
}

pub(super) async fn carry_out(arguments: GenerateArguments) -> Result<Exit, ClientError> {
    let mut body = arguments.body()?;
    let key = match (arguments.integration.key()?, body.remove("api_key")) {
        (Some(key), _) | (None, Some(Value::String(key))) => key,
        (None, _) => return Err(ClientError::NoIntegrationKey),
    };
    let caller = Caller::of_integration(&arguments.service, &key)?;
    let answer = caller.json::<Value>(Method::POST, "/v1/world/generate", Some(&Value::Object(body))).await;
    let file = arguments.file.as_deref().map(SentFile::new);
    let accepted = answer.map_err(|error| error.named(&arguments.given(), file.as_ref()))?;
    let world = view(&accepted)?;
    if arguments.detach {
        print(&accepted);
        return Ok(Exit::Success);
    }
    let (world, answer) = follow(&caller, world, accepted).await?;
    tell(&answer, arguments.json, || text(&world));
    Ok(if world.status == Status::Failed { Exit::Failure } else { Exit::Success })
}

/// Follows a world to its end; also over a restart of the daemon. Returns it with the answer that holds it.
async fn follow(caller: &Caller, world: World, accepted: Value) -> Result<(World, Value), ClientError> {
    if world.status.is_end() {
        return Ok((world, accepted));
    }
    let id = world.world_id.as_str();
    let ended = follow_events(caller, id).await;
    ended.map_err(|error| error.with_hint(&format!("`warmpool worlds open {id}` shows the world")))
}

async fn follow_events(caller: &Caller, id: &str) -> Result<(World, Value), ClientError> {
    let (here, progress) = (path(id), Progress::new());
    progress.name("world", id);
    let mut broken = None;
    loop {
        let mut events = Events::resume(caller, &here, *broken.get_or_insert_with(Instant::now)).await?;
        while let Some((name, data)) = events.next_of_any_kind().await {
            if name != "world" {
                continue;
            }
            broken = None;
            let world = view(&data)?;
            if world.status.is_end() {
                progress.end();
                return Ok((world, data));
            }
            progress.of_whole(world.progress, if world.status == Status::Queued { "queued" } else { "rendering" });
        }
        sleep(RESUME_EVERY).await;
    }
}

fn view(answer: &Value) -> Result<World, ClientError> {
    World::deserialize(answer).map_err(|error| broken(&error))
}

/// What came of a world, for people.
fn text(world: &World) -> String {
    let (id, scene) = (&world.world_id, world.environment_type.as_str());
    if let Some(error) = &world.error {
        return format!("failed: {scene} {id}\nerror   {}: {}", plain(&error.code), plain(&error.message));
    }
    let left_out = world.items.iter().filter(|item| !item.placed).count();
    let mut lines = vec![format!("ready: {scene} {id}")];
    if left_out > 0 {
        lines.push(format!("items   {left_out} of {} found no place", world.items.len()));
    }
    lines.extend(world.viewer_url.as_ref().map(|url| format!("viewer  {url}")));
    lines.extend(world.assets.panorama_url.as_ref().map(|url| format!("picture {url}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_daemon::{TestDaemon, refusal, stream};

    const ID: &str = "wld_0000000000000000000000";

    fn world(status: &str) -> Value {
        json!({
            "world_id": ID, "status": status, "progress": 0.5, "environment_type": "garden", "variation": "", "test": true,
            "cached": false, "created_at": 0, "width": 512, "height": 256, "assets": {}, "items": [],
        })
    }

    /// Follows a world on a daemon that answers its requests so, the last answer for good. Returns what came of it, and the number of
    /// requests.
    async fn followed(answers: Vec<String>) -> (Result<(World, Value), ClientError>, usize) {
        let daemon = TestDaemon::with_answers(answers).await;
        let accepted = world("queued");
        let came = follow(&daemon.caller(), view(&accepted).unwrap(), accepted).await;
        let asked = daemon.asked();
        assert!(asked.iter().all(|asked| asked.head.starts_with(&format!("GET /v1/worlds/{ID} "))), "{asked:?}");
        (came, asked.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_off_is_taken_up_again() {
        let event = |status: &str| stream("world", &world(status));
        let away = refusal("503 Service Unavailable");
        let (came, asked) = followed(vec![away.clone(), event("rendering"), away, event("ready")]).await;
        let (made, answer) = came.unwrap();
        assert_eq!((made.status, answer, asked), (Status::Ready, world("ready"), 4));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_is_told_which_world_it_is() {
        for status in ["503 Service Unavailable", "404 Not Found"] {
            let (came, asked) = followed(vec![refusal(status)]).await;
            let told = came.unwrap_err().to_string();
            assert!(
                told.contains(status) && told.ends_with(&format!("; `warmpool worlds open {ID}` shows the world")),
                "{told}"
            );
            assert_eq!(asked == 1, status.starts_with("404"), "{asked}");
        }
    }
}
