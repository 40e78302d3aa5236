//! Queues as functions use them.

use std::time::Duration;

use async_trait::async_trait;
use gridpost_core::delivery::queue::Queue;
use gridpost_ports::{Clock, Outgoing, PortError, QueueReceiver, QueueSender};

use super::{HIDDEN_MAX, Queues, receipt::read_receipt};

#[async_trait]
impl QueueSender for Queues {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.note_call(queue, messages.len());
        messages.into_iter().map(|message| self.send_one(queue, message)).collect()
    }
}

#[async_trait]
impl QueueReceiver for Queues {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        const CALL: &str = "sqs:ChangeMessageVisibilityBatch";
        let now = self.clock.now();
        self.log(|log| log.hidden.push((queue, receipt.to_owned(), seconds)));
        if let Some(real) = &self.real {
            real.messages.hide(queue, receipt, seconds).await?;
            self.trace(|| format!("hide {queue} {receipt} {seconds}"));
            self.changed[&queue].notify_one();
            return Ok(());
        }
        let (id, number) =
            read_receipt(receipt).ok_or_else(|| PortError::new(CALL, "an unknown receipt"))?;
        let until = now + Duration::from_secs(u64::from(seconds));
        let stale_counts = self.dice.chance(0.5);
        let hidden = self.with(queue, |contents| {
            let Some(message) = contents.messages.get(&id) else { return Err("it is gone") };
            let stale = message.receipt != number && !stale_counts;
            if message.visible_at <= now || stale {
                return Err("it is not in flight");
            }
            if until > message.received_at + HIDDEN_MAX {
                return Err("beyond 12 hours");
            }
            contents.move_to(id, until);
            Ok(())
        });
        match hidden {
            Ok(()) => {
                self.trace(|| format!("hide {queue} {receipt} {seconds}"));
                self.changed[&queue].notify_one();
                Ok(())
            }
            Err("beyond 12 hours") => {
                Err(self.refuse(format!("SQS was asked to hide for {seconds} s beyond 12 hours")))
            }
            Err(reason) => Err(PortError::new(CALL, reason)),
        }
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        if let Some(real) = &self.real {
            self.trace(|| format!("delete {queue} {receipts:?}"));
            real.messages.delete(queue, receipts).await?;
            self.changed[&queue].notify_one();
            return Ok(());
        }
        for receipt in receipts {
            let Some((id, number)) = read_receipt(&receipt) else { continue };
            let stale_counts = self.dice.chance(0.5);
            if queue == Queue::Poison {
                self.note_returned(id);
            }
            self.with(queue, |contents| {
                let newest =
                    contents.messages.get(&id).is_some_and(|found| found.receipt == number);
                if newest || stale_counts {
                    contents.remove(id);
                }
            });
            self.trace(|| format!("delete {queue} {receipt}"));
        }
        self.changed[&queue].notify_one();
        Ok(())
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        let now = self.clock.now();
        if let Some(real) = &self.real {
            return real.messages.in_flight(queue).await;
        }
        let exact = self.with(queue, |contents| contents.in_flight(now)) as u64;
        Ok(self.told(queue, "in flight", exact))
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        if let Some(real) = &self.real {
            return real.messages.backlog(queue).await;
        }
        let exact = self.with(queue, |contents| contents.messages.len()) as u64;
        Ok(self.told(queue, "all", exact))
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        let now = self.clock.now();
        if let Some(real) = &self.real {
            return real.messages.visible(queue).await;
        }
        let exact = self.with(queue, |contents| contents.visible_count(now)) as u64;
        Ok(self.told(queue, "visible", exact))
    }
}
