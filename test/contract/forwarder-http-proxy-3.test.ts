import { ForwardedRequest } from '../../src/core/forwarding/http-proxy-3.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('http-proxy-3', ForwardedRequest)
