//! The stores keep the contract of the ports, in memory and on disk.

mod contract {
    mod fixture;
    mod journal;
    mod objects;
    mod queues;
    mod restart;
    mod tables;
}
