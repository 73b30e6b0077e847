/** Gateways in this process with the backends behind them. */
import { onTestFinished } from 'vitest'
import { startTestGateway, type GatewayOptions, type TestGateway } from './gateway.ts'
import { startRawBackend, type RawBackend, type RawBackendOptions } from './raw-backend.ts'

/** What a gateway is started with that has a backend of its own; upstream: further settings of it, behind a comma. */
export type BackedOptions = Omit<GatewayOptions, 'upstreams'> &
  Pick<RawBackendOptions, 'respond'> & { readonly upstream?: string }

/** A gateway in front of a backend that answers 200 "ok", unless it is told otherwise. */
export async function startBacked({ respond, upstream, ...options }: BackedOptions = {}) {
  const backend = await startRawBackend(respond === undefined ? {} : { respond })
  const blocks = { ...options.blocks }
  if (upstream !== undefined)
    blocks['upstream'] = `upstream: { urls: [${backend.url}], ${upstream} }`
  const gateway = await startTestGateway({ ...options, upstreams: [backend.url], blocks })
  const stop = async (): Promise<void> => {
    // What a backend holds ends with it.
    const stopped = gateway.stop()
    await backend.close()
    await stopped
  }
  return { backend, gateway, stop }
}

/** As startBacked; both end with the test. */
export async function backed(options?: BackedOptions) {
  const started = await startBacked(options)
  onTestFinished(started.stop)
  return started
}

/** As startTestGateway; it ends with the test. */
export async function gatewayTo(
  upstreams: readonly string[],
  blocks: Readonly<Record<string, string>> = {},
): Promise<TestGateway> {
  const gateway = await startTestGateway({ upstreams, blocks })
  onTestFinished(gateway.stop)
  return gateway
}

export async function rawBackend(
  ...options: Parameters<typeof startRawBackend>
): Promise<RawBackend> {
  const backend = await startRawBackend(...options)
  onTestFinished(backend.close)
  return backend
}
