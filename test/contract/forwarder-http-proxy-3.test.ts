import { createHttpProxyEngine } from '../../src/forwarding/http-proxy-3/forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder({
  name: 'http-proxy-3',
  create: createHttpProxyEngine,
  unaskedContinue: 'ignored',
  lateAlert: 'heard',
})
