import { createHttpProxyEngine } from '../../src/core/forwarding/http-proxy-3/engine.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('http-proxy-3', createHttpProxyEngine)
