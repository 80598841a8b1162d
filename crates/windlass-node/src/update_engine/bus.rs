//! The engine over D-Bus.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Mutex;
use zbus::proxy::SignalStream;
use zbus::{Connection, Proxy, connection, fdo};

use super::status::Fields;
use super::{EngineError, INTERFACE, NAME, PATH, Status, UpdateEngine};

/// The longest that the engine may take to answer; both methods answer at once.
const ANSWER: Duration = Duration::from_secs(25);
const SIGNAL: &str = "StatusUpdate";

/// A client on the machine's bus.
#[derive(Debug)]
pub struct BusEngine {
    proxy: Proxy<'static>,
    /// Subscribed before anything is asked, so that nothing told in answer is missed.
    signals: Mutex<SignalStream<'static>>,
}

impl BusEngine {
    /// Through the bus behind this socket.
    pub async fn connect(socket: &Path) -> Result<Self, EngineError> {
        let reach = |source| EngineError::ReachBus { path: socket.to_owned(), source: Box::new(source) };
        let address = format!("unix:path={}", socket.display());
        let builder = connection::Builder::address(address.as_str()).method_timeout(ANSWER);
        Self::on(&builder.build().await.map_err(reach)?).await
    }

    /// Over a connection that is there already.
    pub async fn on(connection: &Connection) -> Result<Self, EngineError> {
        let subscribe = |source| failure("subscribe to its signals", source);
        let proxy = Proxy::new_owned(connection.clone(), NAME, PATH, INTERFACE).await.map_err(subscribe)?;
        let signals = proxy.receive_signal(SIGNAL).await.map_err(subscribe)?;
        Ok(BusEngine { proxy, signals: Mutex::new(signals) })
    }
}

impl UpdateEngine for BusEngine {
    async fn status(&self) -> Result<Status, EngineError> {
        let fields: Fields = self.proxy.call("GetStatus", &()).await.map_err(|source| failure("GetStatus", source))?;
        Ok(fields.into())
    }

    async fn attempt_update(&self) -> Result<(), EngineError> {
        self.proxy.call("AttemptUpdate", &()).await.map_err(|source| failure("AttemptUpdate", source))
    }

    async fn next(&self, within: Duration) -> Result<Option<Status>, EngineError> {
        let mut signals = self.signals.lock().await;
        let message = match tokio::time::timeout(within, signals.next()).await {
            Err(_silent) => return Ok(None),
            Ok(None) => return Err(failure(SIGNAL, fdo::Error::Disconnected("the bus has gone".into()).into())),
            Ok(Some(message)) => message,
        };
        let fields: Fields = message.body().deserialize().map_err(|source| failure(SIGNAL, source))?;
        Ok(Some(fields.into()))
    }
}

/// Tells an engine that is not there from one that does not answer.
fn failure(what: &'static str, source: zbus::Error) -> EngineError {
    let nobody = match &source {
        zbus::Error::FDO(error) => {
            matches!(
                **error,
                fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) | fdo::Error::SpawnFailed(_)
            )
        }
        _ => false,
    };
    let source = Box::new(source);
    match nobody {
        true => EngineError::FindEngine { source },
        false => EngineError::Ask { what, source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use zbus::object_server::SignalEmitter;
    use zbus::{Guid, interface};

    use super::super::{Operation, Outcome, update};
    use super::*;

    /// An engine that tells all statuses of one update when it is asked for one.
    struct Service {
        statuses: Vec<Fields>,
        absent: bool,
    }

    #[interface(name = "com.coreos.update1.Manager")]
    impl Service {
        fn get_status(&self) -> fdo::Result<Fields> {
            match self.absent {
                true => Err(fdo::Error::ServiceUnknown("no such name".into())),
                false => Ok(fields("UPDATE_STATUS_IDLE", 0.0)),
            }
        }

        async fn attempt_update(&self, #[zbus(signal_emitter)] emitter: SignalEmitter<'_>) {
            for (checked, progress, operation, version, size) in self.statuses.clone() {
                Self::status_update(&emitter, checked, progress, operation, version, size).await.unwrap();
            }
        }

        #[zbus(signal)]
        async fn status_update(
            emitter: &SignalEmitter<'_>,
            last_checked_time: i64,
            progress: f64,
            current_operation: String,
            new_version: String,
            new_size: i64,
        ) -> zbus::Result<()>;
    }

    fn fields(operation: &str, progress: f64) -> Fields {
        (1, progress, operation.to_owned(), "2".to_owned(), 70)
    }

    /// A service and a client at both ends of a pair of sockets, without a bus between them.
    async fn pair(service: Service) -> (Connection, BusEngine) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = connection::Builder::unix_stream(theirs).server(Guid::generate()).p2p();
        let server = server.serve_at(PATH, service).build();
        let client = connection::Builder::unix_stream(ours).p2p().build();
        let (server, client) = tokio::try_join!(server, client).unwrap();
        let engine = BusEngine::on(&client).await.unwrap();
        (server, engine)
    }

    #[tokio::test]
    async fn an_update_is_followed_over_the_wire() {
        let steps = ["CHECKING_FOR_UPDATE", "UPDATE_AVAILABLE", "DOWNLOADING", "VERIFYING", "UPDATED_NEED_REBOOT"];
        let statuses = steps.iter().map(|step| fields(&format!("UPDATE_STATUS_{step}"), 0.5)).collect();
        let (_server, engine) = pair(Service { statuses, absent: false }).await;
        let mut seen = Vec::new();
        let outcome = update(&engine, |status| seen.push(status.operation.clone())).await.unwrap();
        assert_eq!(outcome, Outcome::Staged { version: "2".to_owned() });
        assert_eq!(seen.len(), 6, "the status before, and every signal: {seen:?}");
        assert_eq!(seen[3], Operation::Downloading);
        assert_eq!(engine.next(Duration::from_millis(1)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_told_from_a_broken_one() {
        let (_server, engine) = pair(Service { statuses: Vec::new(), absent: true }).await;
        let error = engine.status().await.unwrap_err();
        assert!(matches!(error, EngineError::FindEngine { .. }) && error.is_absence(), "{error:?}");
        let (server, engine) = pair(Service { statuses: Vec::new(), absent: false }).await;
        server.object_server().remove::<Service, _>(PATH).await.unwrap();
        let error = engine.status().await.unwrap_err();
        assert!(matches!(error, EngineError::Ask { what: "GetStatus", .. }) && !error.is_absence(), "{error:?}");
        let (server, engine) = pair(Service { statuses: Vec::new(), absent: false }).await;
        server.close().await.unwrap();
        let error = engine.next(Duration::from_secs(20)).await.unwrap_err();
        assert!(matches!(error, EngineError::Ask { what: "StatusUpdate", .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_machine_without_a_bus_has_no_engine() {
        let error = BusEngine::connect(Path::new("/no/such/socket")).await.unwrap_err();
        assert!(matches!(error, EngineError::ReachBus { .. }) && error.is_absence(), "{error:?}");
        assert_eq!(error.to_string(), "cannot reach the system bus at /no/such/socket");
    }
}
