// The JSON API. Errors carry the server's code, text and retry advice.

export class ApiError extends Error {
	constructor(status, body) {
		super(body?.text || `HTTP ${status}`);
		this.status = status;
		this.code = body?.code ?? (status === 0 ? 'lost' : 'internal');
		this.reason = body?.reason ?? '';
		this.retryMs = body?.retry_ms ?? 0;
		this.reason = body?.reason ?? '';
	}
}

/**
 * Calls an endpoint.
 * @returns {Promise<object|null>} the parsed answer, null for 204
 * @throws {ApiError} status 0 when the server cannot be reached
 */
export async function call(method, path, body) {
	const options = { method, credentials: 'same-origin', cache: 'no-store' };
	if (body !== undefined) {
		options.headers = { 'Content-Type': 'application/json' };
		options.body = JSON.stringify(body);
	}
	let response;
	try {
		options.signal = AbortSignal.timeout(10_000);
		response = await fetch(path, options);
	} catch {
		throw new ApiError(0, null);
	}
	if (response.status === 204) return null;
	let parsed = null;
	try {
		parsed = await response.json();
	} catch {
		if (response.ok) throw new ApiError(0, null); // cut off in the middle
	}
	if (!response.ok) throw new ApiError(response.status, parsed);
	return parsed;
}
