/** Applies the policy of attempts.ts to upgrades: a tunnel holds the permit of its backend until it closes. */
import type { Backend } from '../backends/backend.ts'
import type { Balancer } from '../backends/balancer.ts'
import { Place } from '../backends/line.ts'
import type { BackendFailure, FailedAttempt } from '../rules/backend-failure.ts'
import { overdue, saturated } from './attempts.ts'
import type { UpgradeEngine, UpgradeJob } from './forwarder.ts'
import type { Retries } from './retries.ts'

export type Upgrader = ReturnType<typeof createUpgrader>

export interface UpgraderParts {
  readonly balancer: Balancer
  readonly retries: Retries
  readonly engine: UpgradeEngine
  /** Longest wait for a backend. */
  readonly longestWaitMs: number
}

export function createUpgrader({ balancer, retries, engine, longestWaitMs }: UpgraderParts) {
  const attempt = async (backend: Backend, job: UpgradeJob, after?: FailedAttempt) => {
    const sender = { clientId: job.caller.clientId, startedMs: performance.now() }
    let isOpen = false
    const established = (): void => {
      isOpen = true
      balancer.note(backend, 101, sender)
      job.established()
    }
    let failed: FailedAttempt | undefined
    job.sentTo(backend.name, after)
    try {
      failed = await engine.upgrade(backend, { ...job, established })
      return failed
    } finally {
      if (isOpen) balancer.giveBack(backend, sender.clientId)
      else balancer.report(backend, failed ?? 'abandoned', sender)
    }
  }
  return {
    /** Same as the member of UpgradeEngine, like review, drain and close. */
    get underWay() {
      return engine.underWay
    },
    upgrade: async (job: UpgradeJob): Promise<BackendFailure | undefined> => {
      const deadlineMs = performance.now() + longestWaitMs
      const asker = { clientId: job.caller.clientId, method: 'GET' }
      const permit = (avoid?: Backend) =>
        balancer.take(asker, avoid) ?? inLine(balancer, job, { deadlineMs, avoid })
      retries.begun()
      let backend = await permit()
      let failed: FailedAttempt | undefined
      for (let repeated = 0; ; repeated++) {
        if ('kind' in backend) return backend
        failed = await attempt(backend, job, failed)
        if (failed === undefined || !retries.allows(asker, failed, repeated)) return failed
        backend = await permit(backend)
      }
    },
    review: engine.review,
    drain: engine.drain,
    close: () => engine.close(),
  }
}

function inLine(
  balancer: Balancer,
  { caller: { clientId }, socket }: UpgradeJob,
  { deadlineMs, avoid }: { deadlineMs: number; avoid: Backend | undefined },
): Promise<Backend | BackendFailure> {
  return new Promise((resolve) => {
    const leave = (): void => {
      balancer.leave(place)
      socket.destroy()
      settle({ kind: 'client_gone', cause: 'the client left before a backend was free' })
    }
    const settle = (outcome: Backend | BackendFailure): void => {
      socket.off('end', leave).off('close', leave)
      resolve(outcome)
    }
    const place = new Place(
      { clientId, method: 'GET', onPermit: settle, onOverdue: () => settle(overdue) },
      deadlineMs - performance.now(),
    )
    if (!balancer.wait(place, avoid)) return resolve(saturated)
    socket.once('end', leave).once('close', leave)
    if (socket.destroyed) return leave()
    // Only reading shows that the client has left; the bytes stay in the stream.
    socket.read(0)
  })
}
