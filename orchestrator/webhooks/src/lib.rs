//! Messages to other people's servers: what ended, and what waits for a person.
//!
//! | module    | what it holds |
//! |-----------|---------------|
//! | `address` | which addresses clients may name |
//! | `message` | a message as the store keeps it |
//! | `lane`    | the messages of one key: how many there may be, and how many are under way |
//! | `post`    | one attempt: the connection, the signature, the answer |
//! | `outbox`  | keeps messages, sends them, and sends them again |
//!
//! The crate may use `store`, `keys`, `dial`, `config` and `core`. It knows nothing of sessions and tasks: they say what to tell.
//!
//! - *A message is in the store before it is sent*, in the very batch that writes what it tells of ([`Webhooks::add_to_batch`]). A
//!   daemon that dies between the two sends it after its next start, so each message arrives at least once. Its id is made of what
//!   it tells of, and receivers leave out what they have seen.
//! - *A client's address is judged when the message is sent*, after its name was resolved, by the policy that attachments of worlds
//!   have: whoever names an address reaches nothing that the operator has not opened for this purpose. Redirects are not followed.
//!   The operator's own address is not judged.
//! - *Secrets are derived* from the instance's own, one for each key, so that nothing has to be kept and no key can forge another's
//!   messages. Messages to the operator's address are signed with the operator's secret.
//! - *Each key has a lane of its own*, so one whose receiver is dead or slow holds up nobody else.

mod address;
mod lane;
mod message;
mod outbox;
mod post;

pub use address::{AddressError, MAX_ADDRESS, check_address};
pub use message::{Event, EventKind};
pub use outbox::{QueuedMessages, WebhookError, Webhooks};
