//! Values that options take: what is checked on the command line is what shells complete.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use warmpool_api::profile::ProfileKind;
use warmpool_api::session;
use warmpool_api::task;
use warmpool_api::world::Environment;
use warmpool_core::browser::Engine;
use warmpool_core::metadata::Label;

/// A parser of the names of `all`.
fn names<T, const N: usize>(all: [T; N], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.map(name))
        .try_map(move |text| all.into_iter().find(|one| name(*one) == text).ok_or("no such name"))
}

/// An engine.
pub fn engine() -> impl TypedValueParser<Value = Engine> {
    names(Engine::ALL, Engine::as_str)
}

/// What a profile keeps.
pub(super) fn profile_kind() -> impl TypedValueParser<Value = ProfileKind> {
    names(ProfileKind::ALL, ProfileKind::as_str)
}

/// The status of a session.
pub(super) fn session_status() -> impl TypedValueParser<Value = session::Status> {
    names(session::Status::ALL, session::Status::as_str)
}

/// The status of a task or of an item.
pub(super) fn task_status() -> impl TypedValueParser<Value = task::Status> {
    names(task::Status::ALL, task::Status::as_str)
}

/// What a task does.
pub(super) fn task_kind() -> impl TypedValueParser<Value = task::TaskKind> {
    names(task::TaskKind::ALL, task::TaskKind::as_str)
}

/// A label: its key, `=` and its value.
pub(super) fn label(text: &str) -> Result<Label, &'static str> {
    text.to_owned().try_into()
}

/// A kind of scene.
pub(super) fn environment() -> impl TypedValueParser<Value = Environment> {
    names(Environment::ALL, Environment::as_str)
}
