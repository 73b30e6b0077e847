/** The behaviour every forwarding engine owes the pipeline, over real sockets against a backend that may be hostile. */
import { afterEach, describe } from 'vitest'
import { startRawBackend, type RawBackend } from '../support/raw-backend.ts'
import { describeAnswers } from './forwarder-answers.ts'
import { describeConnections } from './forwarder-connections.ts'
import { describeHostileAnswers } from './forwarder-hostile-answers.ts'
import { describeNames } from './forwarder-names.ts'
import { describeRequests } from './forwarder-requests.ts'
import { describeTls } from './forwarder-tls.ts'
import { startFront, type CreateEngine, type Front } from './forwarding.ts'

export interface Stage {
  backend(options?: Parameters<typeof startRawBackend>[0]): Promise<RawBackend>
  front(
    backends: readonly (RawBackend | string)[],
    options?: Parameters<typeof startFront>[2],
  ): Promise<Front>
}

/** Runs the whole contract against one engine. */
export function describeForwarder(name: string, create: CreateEngine): void {
  describe(`the ${name} engine`, () => {
    const toClose: { close(): Promise<void> }[] = []
    afterEach(async () => {
      for (const each of toClose.splice(0).toReversed()) await each.close()
    })
    const keep = <Closable extends { close(): Promise<void> }>(each: Closable): Closable => {
      toClose.push(each)
      return each
    }
    const stage: Stage = {
      backend: async (options) => keep(await startRawBackend(options)),
      front: async (backends, options) => {
        const urls = backends.map((each) => (typeof each === 'string' ? each : each.url))
        return keep(await startFront(create, urls, options))
      },
    }
    describeRequests(stage)
    describeAnswers(stage)
    describeHostileAnswers(stage)
    describeConnections(stage)
    describeNames(stage)
    describeTls(stage)
  })
}
