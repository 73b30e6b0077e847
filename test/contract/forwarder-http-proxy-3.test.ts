import { createHttpProxyForwarder } from '../../src/adapters/http-proxy-forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder({
  name: 'http-proxy-3',
  create: createHttpProxyForwarder,
  unaskedContinue: 'ignored',
})
