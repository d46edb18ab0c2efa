//! The program `counterfoil`.

/// Hands the command line to the library.
#[tokio::main]
async fn main() -> std::process::ExitCode {
    counterfoil::cli::run().await
}
