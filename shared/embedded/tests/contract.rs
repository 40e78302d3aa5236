//! The stores keep the contract of the ports, in memory and on disk.

mod contract {
    mod queues;
    mod restart;
    mod world;
}
