/** Carries an admitted WebSocket handshake (RFC 6455) to a backend; after its 101 both sides are one tunnel. */
import type { Upgrader } from '../forwarding/forwarder.ts'
import type { Tunnel } from './exchange.ts'
import type { Lessee } from '../quota/lessee/lessee.ts'
import { switchingHeaders } from '../rules/client-headers.ts'
import { upgradeHeaders } from '../rules/backend-headers.ts'
import { refuseFailed, backendIdentity, type Admitted, type ForwardDeps } from './forward.ts'
import { gatewayHeaders } from './respond.ts'

export interface UpgradeDeps {
  readonly upgrader: Upgrader
  readonly lessee: Lessee
  readonly host: ForwardDeps['host']
  readonly onFailure: ForwardDeps['onFailure']
}

export function createUpgrade({
  upgrader,
  lessee,
  host,
  onFailure,
}: UpgradeDeps): ForwardDeps['upgrade'] {
  const carry = async (admitted: Admitted, { socket, head }: Tunnel): Promise<void> => {
    const { exchange, target } = admitted
    exchange.backendStartedMs = performance.now()
    const job = {
      request: exchange.request,
      socket,
      head,
      target,
      headers: upgradeHeaders(backendIdentity(admitted, host)),
      responseHeaders: (backend: readonly string[]) =>
        switchingHeaders(backend, gatewayHeaders(exchange)),
      sentTo: (backend: string) => {
        exchange.backend = backend
      },
      established: () => {
        exchange.status = 101
      },
    }
    // Nothing is written through the response once the backend has agreed: the tunnel has the socket.
    const failure = await upgrader.upgrade(job)
    exchange.backendEndedMs = performance.now()
    if (failure === undefined) return void socket.destroy()
    onFailure(exchange, failure)
    if (exchange.status === 101 || failure.kind === 'client_gone') return void socket.destroy()
    refuseFailed(lessee, admitted, failure)
  }
  return (admitted, tunnel) => void carry(admitted, tunnel)
}
