/** Carries WebSocket upgrades: http-proxy-3 makes the handshake with the backend, then a tunnel joins the two sockets. */
import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Backend } from '../backends/backend.ts'
import { answered, backendFailureKind, type FailedAttempt } from '../rules/backend-failure.ts'
import { tlsFault } from '../rules/tls-faults.ts'
import { handshakeFault } from '../rules/websocket.ts'
import { errorText, backendErrorCode, withHost, type EngineOptions } from './engine.ts'
import type { UpgradeEngine, UpgradeJob } from './forwarder.ts'
import { createStreamingProxy, upgradeThroughHttpProxy } from './http-proxy-3/http-proxy.ts'
import { Tunnel } from './tunnel.ts'

const maxEarlyBytes = 64 * 1024

/** responseMs bounds the handshake, tunnelIdleMs the silence of a tunnel. */
export function createUpgradeEngine(
  { timeouts }: Pick<EngineOptions, 'timeouts'>,
  tunnelIdleMs: number,
): UpgradeEngine {
  // An unexpected http-proxy-3 throws here, not at the first upgrade.
  createStreamingProxy()
  const open = new Set<Duplex>()
  const tunnels = new Set<Tunnel>()
  let isDraining = false
  return {
    get underWay() {
      return open.size
    },
    upgrade: async (backend, job) => {
      open.add(job.socket)
      // The listener stays: the client may leave while a failed upgrade is answered on this socket.
      job.socket.on('error', () => {})
      try {
        const handshake = await shakeHands(job, backend, timeouts)
        const tunnel = 'answer' in handshake ? join(job, handshake) : handshake
        if (!(tunnel instanceof Tunnel)) {
          if (tunnel.kind === 'client_gone') job.socket.destroy()
          return tunnel
        }
        tunnels.add(tunnel)
        if (isDraining) tunnel.close('drain')
        return await tunnel.closed.finally(() => tunnels.delete(tunnel))
      } finally {
        open.delete(job.socket)
      }
    },
    review: (judge) => {
      const nowMs = performance.now()
      for (const tunnel of tunnels) tunnel.review(nowMs, tunnelIdleMs, judge)
    },
    drain: () => {
      isDraining = true
      for (const tunnel of tunnels) tunnel.close('drain')
    },
    close: async () => {
      for (const socket of open) socket.destroy()
      for (const tunnel of tunnels) tunnel.cut()
    },
  }
}

function join(job: UpgradeJob, { answer, socket, early }: Handshake): Tunnel | FailedAttempt {
  const fields = job.responseHeaders(answer.rawHeaders)
  const fault = handshakeFault(job.offer, acceptOf(job.offer.key), answer.rawHeaders)
  if (fault !== undefined || fields === undefined) {
    socket.destroy()
    const cause = fault ?? 'the 101 has headers that cannot be passed on'
    return { kind: 'broken', cause, ...answered }
  }
  job.socket.write(switchingProtocols(fields), 'latin1')
  job.established()
  return new Tunnel(job, socket, early)
}

/** Computes Sec-WebSocket-Accept (RFC 6455 4.2.2). */
function acceptOf(key: string): string {
  return hash('sha1', `${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64')
}

interface Handshake {
  readonly answer: IncomingMessage
  readonly socket: Socket
  /** Bytes that the client sent before it had its answer. */
  readonly early: Buffer
}

/** Resolves with the backend's 101 or a failure. Nothing is written to the client's socket, and all listeners are removed. */
function shakeHands(
  { request, socket: client, head, target, headers }: UpgradeJob,
  backend: Backend,
  { connectMs, responseMs }: EngineOptions['timeouts'],
): Promise<Handshake | FailedAttempt> {
  return new Promise((resolve) => {
    const early = [head]
    let earlyBytes = head.length
    const keepEarly = (chunk: Buffer): void => {
      early.push(chunk)
      earlyBytes += chunk.length
      if (earlyBytes > maxEarlyBytes) client.pause()
    }
    const leave = (): void => fail('client_gone', 'the client left during the handshake')
    // Only reading shows that the client has left.
    client.on('data', keepEarly).once('end', leave).once('close', leave)
    const settle = (outcome: Handshake | FailedAttempt): void => {
      clearTimeout(clock)
      client.off('data', keepEarly).off('end', leave).off('close', leave)
      client.pause()
      if ('kind' in outcome) endRequest()
      resolve(outcome)
    }
    const fail = (
      kind: FailedAttempt['kind'],
      cause: string,
      phase: FailedAttempt['phase'] = 'sent',
    ): void =>
      settle({ ...answered, kind, cause, phase, bodyTouched: early.length > 1, answerBegun: false })
    const late = `no answer within ${responseMs} ms (upstream.timeouts.response)`
    const clock = setTimeout(() => fail('response_timeout', late), responseMs)
    const endRequest = upgradeThroughHttpProxy(
      {
        backend,
        agent: undefined,
        method: request.method ?? 'GET',
        path: target,
        headers: withHost(headers, backend),
        connectTimeoutMs: connectMs,
      },
      {
        upgraded: (answer, socket) => settle({ answer, socket, early: Buffer.concat(early) }),
        refused: (answer) => fail('broken', `status ${answer.statusCode} instead of 101`),
        error: (error) => {
          const phase = isConnectError(error) ? 'connecting' : 'sent'
          const kind = backendFailureKind(backendErrorCode(error), phase === 'sent')
          fail(kind, errorText(error), phase)
        },
      },
    )
  })
}

/** Reports whether no connection was made: Node shows it by `syscall`, TLS and http-proxy-3 by their codes. */
function isConnectError(error: NodeJS.ErrnoException): boolean {
  return (
    error.syscall === 'connect' ||
    error.syscall === 'getaddrinfo' ||
    error.code === 'ECONNECT_TIMEOUT' ||
    tlsFault(errorText(error)) !== undefined
  )
}

function switchingProtocols(fields: readonly string[]): string {
  let head = 'HTTP/1.1 101 Switching Protocols\r\n'
  for (let at = 0; at < fields.length; at += 2) head += `${fields[at]}: ${fields[at + 1]}\r\n`
  return `${head}\r\n`
}
