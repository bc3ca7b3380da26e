pub mod ads;
pub mod captcha;
pub mod egress;
mod error;
pub mod pool;
pub mod worker;

pub use error::Error;
