pub mod player;
pub mod script;
pub mod task;
