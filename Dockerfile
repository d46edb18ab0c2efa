# The image of the service: one binary on a Debian without tools of its own.
#
#   docker build -t counterfoil:local .
#
# Both bases are arguments, for a mirror or for a base of one's own. The last stage only copies:
# any image with glibc 2.36 or later serves as RUN_IMAGE, one without a shell included.
# Every line works with BuildKit and with the classic builder.
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG RUN_IMAGE=debian:bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
ENV CARGO_PROFILE_RELEASE_STRIP=symbols

# The dependencies alone, in a layer that stays until Cargo.toml or Cargo.lock change.
# Cargo wants every declared target's file to exist, so the extra targets are left out here.
COPY Cargo.toml Cargo.lock ./
RUN mv Cargo.toml whole.toml \
    && awk '/^\[/ { skip = /^\[\[(bench|example|test)\]\]/ } !skip' whole.toml > Cargo.toml \
    && mkdir src && : > src/lib.rs && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin counterfoil \
    && rm -r src whole.toml

# The program. `clean -p` forgets the empty one: files of the context may be older than it.
COPY . .
RUN cargo clean --release --locked -p counterfoil \
    && cargo build --release --locked --bin counterfoil \
    && cp target/release/counterfoil /counterfoil

FROM ${RUN_IMAGE}
LABEL org.opencontainers.image.title="Counterfoil" \
      org.opencontainers.image.description="PostgreSQL tables as REST resources in which a lost update cannot happen unseen" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=build /counterfoil /usr/local/bin/counterfoil

# A configuration file, if there is one, is mounted here: it is looked for in the working directory.
WORKDIR /etc/counterfoil
# `serve` listens here and `health` asks here. Loopback would not be reachable from outside the container.
ENV COUNTERFOIL_LISTEN=0.0.0.0:8080
EXPOSE 8080
# By number, so that no user database is needed, and an orchestrator can see that it is not root.
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["counterfoil", "health"]
ENTRYPOINT ["counterfoil"]
CMD ["serve"]
