//! Faults of parked deliveries: dispatch's, wake's and operators' calls.

use async_trait::async_trait;
use gridpost_core::delivery::parking::Parked;
use gridpost_ports::{
    DueDeliveries, DuePage, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot, PortError,
    WakeCursor, parked_partition,
};
use uuid::Uuid;

use super::{About, Faulty, Units};
use crate::table::Tables;

/// Returns the units that a write of it takes: one for each KiB; a removal is like any other.
fn units_of(parked: &Parked) -> Units {
    Units::Write(u32::try_from(parked.body.len() / 1_024 + 1).unwrap_or(u32::MAX))
}

/// The partition of the table that a parked delivery lies in.
fn partition_of(parked: &Parked) -> String {
    format!("parked {}#{}", parked.due_minute(), parked_partition(parked.id))
}

#[async_trait]
impl ParkingLot for Faulty<Tables> {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        let units = [(partition_of(parked), units_of(parked))];
        let about = About::Deliveries(vec![parked.id]);
        self.table(about, &units, || self.inner.park(parked)).await
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        let units = [(partition_of(parked), units_of(parked))];
        let about = About::Deliveries(vec![parked.id]);
        self.table(about, &units, || self.inner.remove(parked)).await
    }
}

#[async_trait]
impl DueDeliveries for Faulty<Tables> {
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError> {
        if after.is_some() && self.injector.loses_page() {
            self.injector.note(&self.instance, &About::Other, "a further page could not be read");
            return Err(PortError::new("dynamodb:Query", "it failed between two pages by plan"));
        }
        let units = [(format!("parked {minute}#{partition}"), Units::Read(1))];
        self.table(About::Other, &units, || self.inner.due_in(minute, partition, after.clone()))
            .await
    }

    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError> {
        let about = About::Deliveries(parked.iter().map(|parked| parked.id).collect());
        let units: Vec<_> =
            parked.iter().map(|parked| (partition_of(parked), units_of(parked))).collect();
        self.room_for(&units).await;
        self.table(about, &units, || self.inner.remove_all(parked)).await
    }
}

#[async_trait]
impl WakeCursor for Faulty<Tables> {
    async fn load(&self) -> Result<Option<i64>, PortError> {
        self.table(About::Other, &[], || WakeCursor::load(&*self.inner)).await
    }

    async fn save(&self, minute: i64) -> Result<(), PortError> {
        self.table(About::Other, &[], || WakeCursor::save(&*self.inner, minute)).await
    }
}

#[async_trait]
impl ParkedDeliveries for Faulty<Tables> {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        self.table(About::Other, &[], || self.inner.list_after(place)).await
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        self.table(About::Deliveries(vec![id]), &[], || self.inner.find(id, minute)).await
    }
}
