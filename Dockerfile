# The gateway and the catalogue service in one image; compose.yaml runs both. Mount a configuration as
# /etc/tollgate/gateway.yaml; one that listens on loopback only is not reachable from outside the container.
# Built from the paths named below and nothing else of the checkout.

FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY src/ src/
COPY tsconfig.json ./
RUN npm run build

FROM node:24-slim AS dependencies
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /build/node_modules/ node_modules/
COPY --from=build /build/dist/ dist/
COPY package.json ./
# A new volume takes its owner from the folder it is mounted on. Without Redis the gateway keeps its counts and bans in
# store.file, below data/ here: mount a volume as /app/data, or they go with the container.
RUN mkdir data /data && chown node:node data /data
USER node
EXPOSE 8080
# The admin listener's address may be another in your configuration: change both.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9090/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# SIGTERM drains: give the container more time than server.timeouts.drain before it is killed.
ENTRYPOINT ["node", "dist/main.js"]
CMD ["start", "--config", "/etc/tollgate/gateway.yaml"]
