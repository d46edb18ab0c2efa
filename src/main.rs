//! The program `counterfoil`.

/// Requests live shortly and end on other threads than they began on, which the allocator of the C
/// library is slow at: it took a fifth of the server's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hands the command line to the library.
#[tokio::main]
async fn main() -> std::process::ExitCode {
    counterfoil::cli::run().await
}
