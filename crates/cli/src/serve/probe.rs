//! `formwork serve --probe`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Maximum time until the response of the server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns whether the server that listens on `host` and `port` has loaded the models that it loads at startup.
///
/// # Errors
///
/// Fails if no server answers `GET /health` within five seconds.
pub(super) fn is_ready(host: &str, port: u16) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async { tokio::time::timeout(TIMEOUT, status(host, port)).await });
    let status = status.with_context(|| format!("{host}:{port}: no response in {TIMEOUT:?}"))??;
    ensure!(
        matches!(status, StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE),
        "{host}:{port}: `GET /health` returned {status}; is this another server?"
    );
    Ok(status == StatusCode::OK)
}

/// Sends `GET /health` and returns the status of the response.
async fn status(host: &str, port: u16) -> Result<StatusCode> {
    let addresses = tokio::net::lookup_host((host, port)).await.with_context(|| format!("--host {host}"))?;
    let addresses: Vec<SocketAddr> = addresses.map(reachable).collect();
    let stream = TcpStream::connect(&addresses[..])
        .await
        .with_context(|| format!("cannot connect to {host}:{port}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/health").header(HOST, format!("{host}:{port}"));
    Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?.status())
}

/// Replaces the address that stands for all interfaces by one that a client can connect to.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one request on a free port with `response`, and returns the port.
    fn answer(response: &'static str) -> Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).expect("a request");
            assert!(request[..length].starts_with(b"GET /health HTTP/1.1\r\n"));
            stream.write_all(response.as_bytes()).expect("an open connection");
        });
        Ok(port)
    }

    #[test]
    fn asks_the_server_for_its_health() -> Result<()> {
        const READY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        assert!(is_ready("127.0.0.1", answer(READY)?)?);
        assert!(is_ready("0.0.0.0", answer(READY)?)?);
        let loading = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        assert!(!is_ready("localhost", answer(loading)?)?);
        let error = is_ready("127.0.0.1", answer("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?);
        assert!(error.expect_err("another server").to_string().contains("404 Not Found"));
        let free = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        assert!(
            is_ready("127.0.0.1", free).expect_err("no server").to_string().starts_with("cannot connect")
        );
        Ok(())
    }
}
