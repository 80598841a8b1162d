//! The update engine inside a machine: `com.coreos.update1` on the system bus, as CoreOS had it, so that node software
//! speaks D-Bus to it and knows nothing of the cloud. An update is found and staged by asking the machine API; it takes
//! effect when the machine starts again.

pub mod channel;
mod service;
mod status;

use std::future::pending;

use thiserror::Error;
use zbus::connection::Builder;

pub use self::channel::{Channel, ChannelError, Next, Os, Progress, StageRequest};
use self::service::Manager;
pub use self::status::{Operation, Status};

/// The name on the bus.
pub const NAME: &str = "com.coreos.update1";
/// The object.
pub const PATH: &str = "/com/coreos/update1";
/// Where the machine API answers.
const API: &str = "169.254.169.254:80";

/// Why the engine could not go on; systemd starts it again.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No runtime.
    #[error("cannot start the update engine")]
    Start(#[source] std::io::Error),
    /// The bus refused.
    #[error("cannot serve {NAME} on the system bus")]
    Serve(#[source] Box<zbus::Error>),
}

/// Serves for as long as the machine runs.
pub(super) fn serve() -> Result<(), EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(EngineError::Start)?;
    runtime.block_on(async {
        let failed = |source| EngineError::Serve(Box::new(source));
        let manager = Manager::new(Channel::at(API)).await;
        let served = Builder::system().name(NAME).serve_at(PATH, manager).build().await;
        let _connection = served.map_err(failed)?;
        pending().await
    })
}
