import { createUndiciEngine } from '../../src/forwarding/undici/forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder({
  name: 'undici',
  create: createUndiciEngine,
  // undici ends the connection at a 100 without Expect; the request is not repeated.
  unaskedContinue: 'broken',
  // undici ends the connection itself at the end that comes with the alert.
  lateAlert: 'missed',
})
