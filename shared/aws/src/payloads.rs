//! The payload bucket on S3.

use std::sync::OnceLock;

use async_trait::async_trait;
use aws_sdk_s3::{Client, operation::get_object::GetObjectError};

use super::{Clients, port_error, whole};
use gridpost_ports::{Payloads, PortError};

/// Events that are too large for a queue message, in their bucket.
#[derive(Debug)]
pub struct PayloadBucket {
    clients: Clients,
    name: String,
    /// Created for the first large delivery: most functions never see one.
    client: OnceLock<Client>,
}

impl PayloadBucket {
    pub fn new(clients: Clients, name: String) -> Self {
        Self { clients, name, client: OnceLock::new() }
    }

    fn client(&self) -> &Client {
        self.client.get_or_init(|| self.clients.s3())
    }
}

#[async_trait]
impl Payloads for PayloadBucket {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let put = self.client().put_object().bucket(&self.name).key(key).body(object.into());
        put.send().await.map_err(|error| port_error("s3:PutObject", error))?;
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        const CALL: &str = "s3:GetObject";
        let get = self.client().get_object().bucket(&self.name).key(key).send().await;
        let object = match get {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                return Ok(None);
            }
            Err(error) => return Err(port_error(CALL, error)),
        };
        Ok(Some(whole(CALL, object.body).await?))
    }
}
