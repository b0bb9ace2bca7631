# Desk in a container without anything else in it. Build and start:
#   docker build -t eddy --build-arg VERSION=v0.7.0 .
#   docker run --name desk -p 8080:8080 -v eddy-desk:/data --ulimit nofile=100200 eddy
# The first lines of "docker logs desk" have the login and the password, once. docs/install.md has the rest.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=v0.0.0-container
RUN CGO_ENABLED=0 GOFLAGS= go build -mod=readonly -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X github.com/go-eddy/eddy/internal/version.number=$VERSION" -o /out/eddy ./cmd/eddy
# Made here, because scratch has no program that could: who owns a directory of the image owns a new volume there.
RUN mkdir -m 700 /out/data && chown 65532:65532 /out/data && mkdir -m 1777 /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=0:0 /out/eddy /eddy
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/tmp /tmp
USER 65532:65532
WORKDIR /data
ENV EDDY_DESK_ADDR=0.0.0.0:8080 EDDY_DESK_DATA=/data EDDY_DESK_DUMP_DIR=/tmp
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/eddy", "health", "--url", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["/eddy"]
CMD ["desk"]
