/** Reports connections that the public listener admits or refuses. */
import type { Socket } from 'node:net'
import type { ConnectionRefusal } from '../../core/http/connection-limits.ts'
import type { Entry, Origin } from '../../core/http/connections.ts'
import type { EntryEvents } from '../../core/http/way-in.ts'
import type { PipelineParts } from '../../core/pipeline/exchange.ts'
import type { ClientAddress } from '../../core/rules/client-address.ts'

type Parts = Pick<PipelineParts, 'connections' | 'log' | 'metrics'>

/** judge: decides by the policy in force. */
export function createAdmissionEvents(
  { connections, log, metrics }: Parts,
  judge: (address: string) => ClientAddress,
): EntryEvents {
  const turnAway = (transport: Socket, address: string, reason: ConnectionRefusal): undefined => {
    transport.resetAndDestroy()
    metrics.connectionRefused(reason)
    log.connectionRefused({ address, reason })
  }
  const enter = (transport: Socket, origin: Origin, isBalancer: boolean): Entry | undefined => {
    const { key, peerTrusted } = judge(origin.address)
    if (isBalancer && !peerTrusted) return turnAway(transport, key, 'proxy')
    const entry = connections.enter(transport, origin, peerTrusted ? undefined : key)
    if (typeof entry === 'string') return turnAway(transport, key, entry)
    if (!isBalancer) connections.arrivals.others += 1
    return entry
  }
  return {
    enter,
    isTrusted: ({ remoteAddress = '' }) => judge(remoteAddress).peerTrusted,
    introduced: (balancer, origin) => {
      const { transport, address } = balancer
      connections.leave(balancer)
      if (origin === undefined) return turnAway(transport, address, 'proxy')
      return enter(transport, origin, false)
    },
    handshakeFailed: ({ address }, reason, cause) => {
      metrics.handshakeFailed(reason)
      log.handshakeFailed({ address, reason, cause })
    },
  }
}
