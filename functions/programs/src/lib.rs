//! What more than one program needs: [`dispatch`] runs with AWS resources as endpoints and without.

pub mod dispatch;
