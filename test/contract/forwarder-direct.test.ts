import { createDirectEngine } from '../../src/forwarding/direct/forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder({
  name: 'direct',
  create: createDirectEngine,
  // RFC 9110 section 15.2: a client takes interim answers it has not asked for.
  unaskedContinue: 'ignored',
  lateAlert: 'heard',
})
