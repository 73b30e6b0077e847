/** The behaviour every forwarding engine owes the pipeline, over real sockets against a backend that may be hostile. */
import { describe } from 'vitest'
import { describeAnswers } from './forwarder-answers.ts'
import { describeConnections } from './forwarder-connections.ts'
import { describeHostileAnswers } from './forwarder-hostile-answers.ts'
import { describeNames } from './forwarder-names.ts'
import { describeRequests } from './forwarder-requests.ts'
import { describeTls } from './forwarder-tls.ts'
import { stageOf } from './forwarding.ts'

/** Runs the whole contract against one engine. */
export function describeForwarder(name: string, attempt: Parameters<typeof stageOf>[0]): void {
  const stage = stageOf(attempt)
  describe(`the ${name} engine`, () => {
    describeRequests(stage)
    describeAnswers(stage)
    describeHostileAnswers(stage)
    describeConnections(stage)
    describeNames(stage)
    describeTls(stage)
  })
}
