//! A time limit for requests.

use crate::error::Error;
use std::time::Duration;

/// Fails with [`Error::Timeout`] if the future takes longer. If the process was suspended, the reply may have arrived
/// in time. So before this function fails, it lets the runtime read the replies that have arrived.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut future = std::pin::pin!(future);
    if let Ok(result) = tokio::time::timeout(limit, &mut future).await {
        return result;
    }
    tokio::task::yield_now().await;
    let last = tokio::time::timeout(Duration::ZERO, future).await;
    last.unwrap_or_else(|_| Err(Error::Timeout(format!("no reply within {} ms", limit.as_millis()))))
}
