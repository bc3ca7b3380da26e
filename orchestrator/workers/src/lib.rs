pub mod ads;
pub mod captcha;
pub mod egress;
pub mod pool;
pub mod worker;
