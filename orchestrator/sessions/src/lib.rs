pub mod live;
pub mod relay;
pub mod session;
pub mod targets;
pub mod video;
pub mod webdriver;
